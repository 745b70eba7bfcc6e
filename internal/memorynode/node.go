// Package memorynode is a Redis master in memory, as far as lockpipe can tell. Tests use it where
// time is virtual: a real server has no part in that. It runs the project's scripts as models in
// Go, which a test compares with servers.
package memorynode

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
)

// Node is one master. It has a clock of its own rate, and keys of type string only. It executes
// each command at one instant. Its methods are safe for concurrent use. They and the sessions are
// to be used after its exported fields were set.
type Node struct {
	// Durable means that every write outlives a crash.
	Durable bool
	// HidesRunID means that INFO does not show the run_id.
	HidesRunID bool
	// Newer means that the node has MSETEX and DELIFEQ.
	Newer bool
	// OnTake, if it is set, is called when a command that arrived on a session gives a key a value
	// that it did not have. It must not use the node, as OnRelease and OnScript must not.
	OnTake func(key, value string, by *Session)
	// OnRelease, if it is set, is called for each key that a release names.
	OnRelease func(key, token string, by *Session)
	// OnScript, if it is set, is called when a script has set, extended or deleted a key, with SET,
	// PEXPIRE or DEL.
	OnScript func(command, key string)

	id    int
	rate  float64   // of its clock, relative to the true one
	epoch time.Time // when its clock began; guarded by mu

	mu         sync.Mutex // guards all below, and the sessions; a leaf except for their ends
	keys       Keys
	scripts    map[string]bool // by SHA-1
	trackers   map[string]map[*Session]bool
	sessions   map[*Session]bool
	notified   []*Session // that have pushes to send
	lastID     int64      // of a session
	current    *Session   // whose commands are executed, or were last
	scripted   bool       // a script runs
	snapshot   Keys       // the keys of the newest one
	servers    int        // how many have been at this address, the present one included
	started    int64      // when the present one started, by the node's clock
	promoted   bool       // the present one was a replica
	promotions int        // of all servers: each changes master_replid
	replica    bool       // the present one is
	copies     []Copy     // the oldest first
}

// Keys are the keys of a node at some time.
type Keys map[string]entry

// entry is the value of one key.
type entry struct {
	value string
	end   int64 // in milliseconds of the node's clock; 0: never
}

// New returns a node that was just started, with a clock of this rate.
func New(id int, rate float64) *Node {
	n := &Node{
		id: id, rate: rate, epoch: time.Now(), sessions: map[*Session]bool{},
		snapshot: Keys{},
	}
	n.startServer(Keys{})
	return n
}

// ID returns the number that New was given.
func (n *Node) ID() int { return n.id }

// startServer starts a server with these keys. mu is held, or not needed yet.
func (n *Node) startServer(keys Keys) {
	n.keys, n.scripts, n.trackers = keys, map[string]bool{}, map[string]map[*Session]bool{}
	n.servers++
	n.started = n.now()
	// A durable server keeps the state of the replica that it was: docs/guarantees.md says that no
	// client could notice.
	n.promoted = n.promoted && n.Durable
}

// closeSessions ends all connections. mu is held.
func (n *Node) closeSessions() {
	for _, s := range n.inOrder(n.sessions) {
		n.removeSession(s)
		s.hangUp()
	}
}

// Wipe removes all keys, as FLUSHALL does, and notifies all trackers.
func (n *Node) Wipe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.snapshot = Keys{}
	n.wipeKeys()
	n.sendPushes(nil)
}

// Flushed is the push about FLUSHALL.
const Flushed = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

// wipeKeys removes all keys and prepares the pushes. mu is held.
func (n *Node) wipeKeys() {
	n.keys, n.trackers = Keys{}, map[string]map[*Session]bool{}
	for _, s := range n.inOrder(n.sessions) {
		if s.tracking && s.resp3 {
			s.push = append(s.push, Flushed...)
			n.notified = append(n.notified, s)
		}
	}
}

// inOrder returns sessions, the oldest first, so that nothing depends on a map's order.
func (*Node) inOrder(sessions map[*Session]bool) []*Session {
	return slices.SortedFunc(maps.Keys(sessions),
		func(a, b *Session) int { return int(a.id - b.id) })
}

// Accept begins a session with a client. send sends to the client, and hangUp ends the connection.
// Both are called with the node locked.
func (n *Node) Accept(send func([]byte), hangUp func()) *Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastID++
	s := &Session{node: n, id: n.lastID, send: send, hangUp: hangUp}
	s.commands = resptest.NewReader(&s.in)
	n.sessions[s] = true
	return s
}

// Sessions returns how many sessions there are.
func (n *Node) Sessions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sessions)
}

// removeSession ends a session. mu is held.
func (n *Node) removeSession(s *Session) {
	s.closed = true
	delete(n.sessions, s)
	for _, sessions := range n.trackers {
		delete(sessions, s)
	}
}

// now returns the node's clock in milliseconds. Redis keeps a key for up to a millisecond longer
// than asked for. This node keeps it for up to a millisecond less, because it cuts off the fraction
// and expires the key at its end. That is the worst case that lockpipe's drift allows for.
func (n *Node) now() int64 {
	return int64(float64(time.Since(n.epoch))*n.rate) / int64(time.Millisecond)
}

// get returns the value of a key that has not expired. mu is held.
func (n *Node) get(key string) (value string, ok bool) {
	e, ok := n.keys[key]
	if ok && e.end != 0 && n.now() >= e.end {
		n.del(key)
		return "", false
	}
	return e.value, ok
}

// set sets a key for ttl milliseconds; 0: without an end. mu is held.
func (n *Node) set(key, value string, ttl int64) {
	e := entry{value: value}
	if ttl != 0 {
		e.end = n.now() + ttl
	}
	if was, ok := n.get(key); n.OnTake != nil && (!ok || was != value) {
		n.OnTake(key, value, n.current)
	}
	n.keys[key] = e
	n.invalidate(key)
	n.reportScript("SET", key)
}

// extend lets a key that is there end in ttl milliseconds, unless it ends later. mu is held.
func (n *Node) extend(key string, ttl int64) {
	if e := n.keys[key]; e.end == 0 || e.end < n.now()+ttl {
		e.end = n.now() + ttl
		n.keys[key] = e
		n.invalidate(key)
	}
	n.reportScript("PEXPIRE", key)
}

// reportScript reports a command of a script. mu is held.
func (n *Node) reportScript(command, key string) {
	if n.scripted && n.OnScript != nil {
		n.OnScript(command, key)
	}
}

// del removes a key, if it is there. mu is held.
func (n *Node) del(key string) {
	if _, ok := n.keys[key]; ok {
		delete(n.keys, key)
		n.invalidate(key)
	}
}

// invalidate notifies the sessions that track the key, each once. mu is held.
func (n *Node) invalidate(key string) {
	for _, s := range n.inOrder(n.trackers[key]) {
		s.push = append(s.push, ">2\r\n$10\r\ninvalidate\r\n"...)
		s.push = resp.AppendCommand(s.push, key) // an array of one string
		n.notified = append(n.notified, s)
	}
	delete(n.trackers, key)
}

// sendPushes sends all pushes; self is the session whose reply is being made. mu is held.
func (n *Node) sendPushes(self *Session) {
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

// KeyUntil returns until when the node keeps the token of a key, by the true clock. It returns the
// zero time if the key has another value or none.
func (n *Node) KeyUntil(key, token string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if value, ok := n.get(key); !ok || value != token {
		return time.Time{}
	}
	return n.epoch.Add(time.Duration(float64(n.keys[key].end*int64(time.Millisecond)) / n.rate))
}

// Get returns the value of a key. ok is false if the node does not have the key.
func (n *Node) Get(key string) (value string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.get(key)
}

// TTL returns for how long the node keeps a key; 0 if it does not have the key, or keeps it for
// ever.
func (n *Node) TTL(key string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(max(0, n.pttl(key))) * time.Millisecond
}

// Set gives a key a value, without an end.
func (n *Node) Set(key, value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current = nil
	n.set(key, value, 0)
	n.sendPushes(nil)
}

// Delete removes a key, if it is there.
func (n *Node) Delete(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.del(key)
	n.sendPushes(nil)
}

// LiveKeys returns the keys that have not expired.
func (n *Node) LiveKeys() (keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		if _, ok := n.get(key); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
