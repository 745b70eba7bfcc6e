package memorynode

import (
	"slices"
	"time"
)

// TakeSnapshot makes a snapshot.
func (n *Node) TakeSnapshot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.snapshot = n.keys.clone()
}

// Restart is a crash. All connections break. Unless the node is durable, everything after the
// snapshot is lost.
func (n *Node) Restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	if n.Durable {
		n.startServer(n.keys)
	} else {
		n.startServer(n.snapshot.clone())
	}
}

// Failover is a crash after which a replica of some age takes the node's place. The replica has the
// keys of the snapshot.
func (n *Node) Failover(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.startServer(n.snapshot.clone())
	n.started, n.promoted = n.started-age.Milliseconds(), true
}

// Replace is a crash after which an empty server of some age takes the node's place.
func (n *Node) Replace(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.snapshot = Keys{}
	n.startServer(Keys{})
	n.started, n.promoted = n.started-age.Milliseconds(), false
}

// DeleteAll removes all keys by one DEL. Unlike a flush, only who tracks a key is told of it.
func (n *Node) DeleteAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range n.live("*") {
		n.del(key)
	}
	n.sendPushes(nil)
}

// Copy is a copy of the keys that a node had at some time.
type Copy struct {
	At   time.Time
	keys Keys
}

// MakeCopy makes a copy of the keys, as of a disk.
func (n *Node) MakeCopy() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.copies = append(n.copies, Copy{time.Now(), n.keys.clone()})
}

// CopiesBefore returns the copies that were made until t.
func (n *Node) CopiesBefore(t time.Time) []Copy {
	n.mu.Lock()
	defer n.mu.Unlock()
	late := func(c Copy) bool { return c.At.After(t) }
	if i := slices.IndexFunc(n.copies, late); i >= 0 {
		return n.copies[:i]
	}
	return n.copies
}

// Restore is a crash after which the disk is restored from a copy.
func (n *Node) Restore(c Copy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.startServer(c.keys.clone())
}

// Demote makes the node a replica of a server that has these keys.
func (n *Node) Demote(keys Keys) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.keys, n.sweepAt = keys, 2*len(keys)+minSweep
	n.trackers, n.replica = map[string]map[*Session]bool{}, true
}

// Sync is Demote by a user: the connections stay, and are told of the flush before the copy comes.
func (n *Node) Sync(keys Keys) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wipeKeys()
	n.keys, n.sweepAt, n.replica = keys, 2*len(keys)+minSweep, true
	n.sendPushes(nil)
}

// ForgetReplica lets the node forget that it was a replica, as after repl-backlog-ttl.
func (n *Node) ForgetReplica() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.promoted && !n.replica {
		n.promoted = false
		n.forgotten++
	}
}

// Promote makes a replica a master again.
func (n *Node) Promote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replica {
		n.promotions++
	}
	n.replica, n.promoted = false, n.promoted || n.replica
}

// KeysFor returns the keys with the ends that they have by another node's clock.
func (n *Node) KeysFor(other *Node) Keys {
	other.mu.Lock()
	theirs := other.now()
	other.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := n.keys.clone()
	for key, e := range keys {
		if e.end != 0 {
			e.end += theirs - n.now()
		}
		keys[key] = e
	}
	return keys
}

// AdvanceClock moves the clock forward.
func (n *Node) AdvanceClock(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch = n.epoch.Add(-d)
}

// ReadOnly is the error with which a replica refuses writes.
const ReadOnly = "READONLY You can't write against a read only replica."
