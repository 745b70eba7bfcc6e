package sim

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
)

// node is a Redis master in memory, as far as lockpipe can tell. It has a clock of its own rate,
// and keys of type string only. It executes commands at one instant; only the link takes time.
type node struct {
	id    int
	rate  float64   // of its clock, relative to the true one
	epoch time.Time // when its clock began
	// onTake is called with mu held when a command that arrived on a session gives a key a value
	// that it did not have; set before the node is shared.
	onTake func(key, value string, by *session)
	// onRelease is called with mu held for each key that a release names; set before the node is
	// shared.
	onRelease func(key, token string, by *session)

	mu       sync.Mutex // guards all below, and the sessions; a leaf except for the pipes
	keys     map[string]entry
	scripts  map[string]bool // by SHA-1
	trackers map[string]map[*session]bool
	sessions map[*session]bool
	notified []*session       // that have pushes to send
	lastID   int64            // of a session
	current  *session         // whose commands are executed, or were last
	snapshot map[string]entry // the keys of the newest one
	// Every write outlives a crash; set before the node is shared.
	durable    bool
	hidesRunID bool         // it does not show its run_id; set before the node is shared
	newer      bool         // it has MSETEX and DELIFEQ; set before the node is shared
	servers    int          // how many have been at this address, the present one included
	started    int64        // when the present one started, by the node's clock
	promoted   bool         // the present one was a replica
	promotions int          // of all servers: each changes master_replid
	replica    bool         // the present one is
	copies     []memoryCopy // the oldest first
}

// entry is the value of one key.
type entry struct {
	value string
	end   int64 // in milliseconds of the node's clock; 0: never
}

func newNode(id int, rate float64) *node {
	n := &node{
		id: id, rate: rate, epoch: time.Now(), sessions: map[*session]bool{},
		snapshot: map[string]entry{}, onTake: func(string, string, *session) {},
		onRelease: func(string, string, *session) {},
	}
	n.startServer(map[string]entry{})
	return n
}

// startServer starts a server with these keys. mu is held, or not needed yet.
func (n *node) startServer(keys map[string]entry) {
	n.keys, n.scripts, n.trackers = keys, map[string]bool{}, map[string]map[*session]bool{}
	n.servers++
	n.started = n.now()
	// A durable server keeps the state of the replica that it was: docs/guarantees.md says that no
	// client could notice.
	n.promoted = n.promoted && n.durable
}

// takeSnapshot makes a snapshot.
func (n *node) takeSnapshot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.snapshot = maps.Clone(n.keys)
}

// restart is a crash. All connections break. Unless the node is durable, everything after the
// snapshot is lost.
func (n *node) restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	if n.durable {
		n.startServer(n.keys)
	} else {
		n.startServer(maps.Clone(n.snapshot))
	}
}

// failover is a crash after which a replica of some age takes the node's place. The replica has the
// keys of the snapshot.
func (n *node) failover(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.startServer(maps.Clone(n.snapshot))
	n.started, n.promoted = n.started-age.Milliseconds(), true
}

// replace is a crash after which an empty server of some age takes the node's place. A client that
// is not connected at that moment can't notice it: see docs/guarantees.md.
func (n *node) replace(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.snapshot = map[string]entry{}
	n.startServer(map[string]entry{})
	n.started, n.promoted = n.started-age.Milliseconds(), false
}

// memoryCopy holds the keys that a node had at some time.
type memoryCopy struct {
	at   time.Time
	keys map[string]entry
}

// copy makes a copy of the keys.
func (n *node) copy() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.copies = append(n.copies, memoryCopy{time.Now(), maps.Clone(n.keys)})
}

// copiesBefore returns the copies that were made until t.
func (n *node) copiesBefore(t time.Time) []memoryCopy {
	n.mu.Lock()
	defer n.mu.Unlock()
	late := func(c memoryCopy) bool { return c.at.After(t) }
	if i := slices.IndexFunc(n.copies, late); i >= 0 {
		return n.copies[:i]
	}
	return n.copies
}

// restore is a crash after which the disk is restored from a copy.
func (n *node) restore(c memoryCopy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.startServer(maps.Clone(c.keys))
}

// demote makes the node a replica of a server that has these keys.
func (n *node) demote(keys map[string]entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeSessions()
	n.keys, n.trackers, n.replica = keys, map[string]map[*session]bool{}, true
}

// promote makes a replica a master again.
func (n *node) promote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replica {
		n.promotions++
	}
	n.replica, n.promoted = false, n.promoted || n.replica
}

// keysFor returns the keys with the ends that they have by another node's clock.
func (n *node) keysFor(other *node) map[string]entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := maps.Clone(n.keys)
	for key, e := range keys {
		if e.end != 0 {
			e.end += other.now() - n.now()
		}
		keys[key] = e
	}
	return keys
}

// advanceClock moves the clock forward.
func (n *node) advanceClock(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch = n.epoch.Add(-d)
}

// closeSessions ends all connections. mu is held.
func (n *node) closeSessions() {
	for _, s := range n.inOrder(n.sessions) {
		n.removeSession(s)
		s.hangUp()
	}
}

// wipe removes all keys, as FLUSHALL does, and notifies all trackers.
func (n *node) wipe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.snapshot = map[string]entry{}
	n.wipeKeys()
	n.sendPushes(nil)
}

// flushed is the push about FLUSHALL.
const flushed = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

// wipeKeys removes all keys and prepares the pushes. mu is held.
func (n *node) wipeKeys() {
	n.keys, n.trackers = map[string]entry{}, map[string]map[*session]bool{}
	for _, s := range n.inOrder(n.sessions) {
		if s.tracking && s.resp3 {
			s.push = append(s.push, flushed...)
			n.notified = append(n.notified, s)
		}
	}
}

// inOrder returns sessions, the oldest first, so that nothing depends on a map's order.
func (*node) inOrder(sessions map[*session]bool) []*session {
	return slices.SortedFunc(maps.Keys(sessions),
		func(a, b *session) int { return int(a.id - b.id) })
}

// accept begins a session with a client.
func (n *node) accept(reply func([]byte), hangUp func()) *session {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastID++
	s := &session{node: n, id: n.lastID, send: reply, hangUp: hangUp}
	s.commands = resptest.NewReader(&s.in)
	n.sessions[s] = true
	return s
}

// removeSession ends a session. mu is held.
func (n *node) removeSession(s *session) {
	s.closed = true
	delete(n.sessions, s)
	for _, sessions := range n.trackers {
		delete(sessions, s)
	}
}

// now returns the node's clock in milliseconds. Redis keeps a key for up to a millisecond longer
// than asked for. This node keeps it for up to a millisecond less, because it cuts off the fraction
// and expires the key at its end. That is the worst case that lockpipe's drift allows for.
func (n *node) now() int64 {
	return int64(float64(time.Since(n.epoch))*n.rate) / int64(time.Millisecond)
}

// get returns the value of a key that has not expired. mu is held.
func (n *node) get(key string) (value string, ok bool) {
	e, ok := n.keys[key]
	if ok && e.end != 0 && n.now() >= e.end {
		n.del(key)
		return "", false
	}
	return e.value, ok
}

// set sets a key for ttl milliseconds; 0: without an end. mu is held.
func (n *node) set(key, value string, ttl int64) {
	e := entry{value: value}
	if ttl != 0 {
		e.end = n.now() + ttl
	}
	if was, ok := n.get(key); !ok || was != value {
		n.onTake(key, value, n.current)
	}
	n.keys[key] = e
	n.invalidate(key)
}

// extend lets a key that is there end in ttl milliseconds, unless it ends later. mu is held.
func (n *node) extend(key string, ttl int64) {
	if e := n.keys[key]; e.end == 0 || e.end < n.now()+ttl {
		n.set(key, e.value, ttl)
	}
}

// del removes a key, if it is there. mu is held.
func (n *node) del(key string) {
	if _, ok := n.keys[key]; ok {
		delete(n.keys, key)
		n.invalidate(key)
	}
}

// invalidate notifies the sessions that track the key, each once. mu is held.
func (n *node) invalidate(key string) {
	for _, s := range n.inOrder(n.trackers[key]) {
		s.push = append(s.push, ">2\r\n$10\r\ninvalidate\r\n"...)
		s.push = resp.AppendCommand(s.push, key) // an array of one string
		n.notified = append(n.notified, s)
	}
	delete(n.trackers, key)
}

// sendPushes sends all pushes; self is the session whose reply is being made. mu is held.
func (n *node) sendPushes(self *session) {
	for _, s := range n.notified {
		switch {
		case s == self:
			s.out = append(s.out, s.push...)
		case len(s.push) > 0 && !s.closed:
			s.send(s.push)
		}
		s.push = nil
	}
	n.notified = n.notified[:0]
}

// keyUntil returns until when the node keeps the token of a key, by the true clock. It returns the
// zero time if the key has another value or none.
func (n *node) keyUntil(key, token string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if value, ok := n.get(key); !ok || value != token {
		return time.Time{}
	}
	return n.epoch.Add(time.Duration(float64(n.keys[key].end*int64(time.Millisecond)) / n.rate))
}

// hasMarker reports whether the node has a marker: of its own server, of an earlier server, or of a
// loss.
func (n *node) hasMarker() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.get(prefix + "lockpipe:admitted")
	return ok
}

// liveKeys returns the keys that have not expired.
func (n *node) liveKeys() (keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		if _, ok := n.get(key); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
