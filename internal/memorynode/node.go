// Package memorynode is a Redis master in memory, as far as Redlock clients can tell. It is the
// node of lockpipetest where there is no redis-server, of lockpipetest/fake, and of tests where
// time is virtual: a real server has no part in that.
//
// A node serves pipes ([Node.Dial]), and whatever a listener accepts ([Node.Serve]). It knows the
// commands that clients of Redlock use, in RESP2 and RESP3, and refuses all others. It has no Lua.
// It runs the project's scripts as models in Go, which a test compares with servers. It recognises
// the usual scripts of other clients by their text: see foreign.go.
//
// It shows in INFO when it was restarted, and can be killed, restarted, frozen and flushed.
package memorynode

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Node is one master. It has a clock of its own rate, and keys that are strings, sorted sets or
// hashes. It executes each command at one instant. Its methods are safe for concurrent use. They
// and the sessions are to be used after its exported fields were set.
type Node struct {
	// Durable means that every write outlives a crash.
	Durable bool
	// HidesRunID means that INFO does not show the run_id.
	HidesRunID bool
	// Newer means that the node has MSETEX and DELIFEQ.
	Newer bool
	// NoTracking means that the node does not know CLIENT TRACKING.
	NoTracking bool
	// Cluster, if it is set, is the Redis Cluster of which the node is a server.
	Cluster Cluster
	// Before, if it is set, is called before each command. If it returns a reply, the node does not
	// execute the command. It must not use the node, as all functions below must not.
	Before func(args []string) (reply string)
	// OnTake, if it is set, is called when a command that arrived on a session gives a key a value
	// that it did not have.
	OnTake func(key, value string, by *Session)
	// OnRelease, if it is set, is called for each key that a release names.
	OnRelease func(key, value string, by *Session)
	// OnScript, if it is set, is called when a script has set, extended or deleted a key, with SET,
	// PEXPIRE or DEL.
	OnScript func(command, key string)
	// OnGuard, if it is set, is called when script.Guard replaces the text of a key. replID is the
	// master_replid of a server that was a replica, and else empty.
	OnGuard func(before, after, runID, replID string)

	id    int
	rate  float64   // of its clock, relative to the true one
	base  int64     // what its clock showed when it began, in milliseconds since 1970
	epoch time.Time // when its clock would have begun, had it not been set; guarded by mu

	mu         sync.Mutex // guards all below, and the sessions; a leaf except for their ends
	thawed     *sync.Cond // of mu: the node goes on, or a session has ended
	frozen     bool
	stopped    bool
	serving    sync.WaitGroup // calls of Serve; grows only while not stopped
	keys       Keys
	sweepAt    int                   // the number of keys at which expired ones are removed
	changes    int                   // of keys, in all
	scripts    map[string]scriptFunc // by SHA-1; nil for those that the node can't run
	trackers   map[string]map[*Session]bool
	channels   map[string]map[*Session]bool // who has subscribed to each
	sessions   map[*Session]bool
	notified   []*Session // that have pushes to send
	lastID     int64      // of a session
	ticket     float64    // the last one of any line: the clock of a bubble may stand still
	current    *Session   // whose commands are executed, or were last
	scripted   bool       // a script runs
	snapshot   Keys       // the keys of the newest one
	servers    int        // how many have been at this address, the present one included
	started    int64      // when the present one started, by the node's clock
	promoted   bool       // the present one was a replica
	promotions int        // of all servers: each changes master_replid
	forgotten  int        // how often a server has forgotten a promotion, which changes it too
	replica    bool       // the present one is
	copies     []Copy     // the oldest first
}

// Keys are the keys of a node at some time.
type Keys map[string]entry

// entry is the value of one key.
type entry struct {
	value  string
	scores map[string]float64 // of a sorted set; else nil
	hash   map[string]string  // of a hash; else nil. It does not change.
	end    int64              // in milliseconds of the node's clock; 0: never
}

func (e entry) isString() bool { return e.scores == nil && e.hash == nil }

// clone returns a copy in which nothing changes when the original does.
func (k Keys) clone() Keys {
	keys := maps.Clone(k)
	for key, e := range keys {
		if e.scores != nil {
			e.scores = maps.Clone(e.scores)
			keys[key] = e
		}
	}
	return keys
}

// New returns a node that was just started, with a clock of this rate.
func New(id int, rate float64) *Node {
	n := &Node{
		id: id, rate: rate, epoch: time.Now(), sessions: map[*Session]bool{},
		channels: map[string]map[*Session]bool{}, snapshot: Keys{},
	}
	n.base, n.thawed = n.epoch.UnixMilli(), sync.NewCond(&n.mu)
	n.startServer(Keys{})
	return n
}

// ID returns the number that New was given.
func (n *Node) ID() int { return n.id }

// startServer starts a server with these keys. mu is held, or not needed yet.
func (n *Node) startServer(keys Keys) {
	n.keys, n.sweepAt = keys, 2*len(keys)+minSweep
	n.scripts, n.trackers = map[string]scriptFunc{}, map[string]map[*Session]bool{}
	n.servers++
	n.started = n.now()
	// A server that reads its data from disk at a start also reads that it was a replica.
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
	n.sweepAt = minSweep
	n.changes++
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

// Accept begins a session with a client. send sends to the client, and keeps nothing of its
// argument. hangUp ends the connection. Both are called with the node locked.
func (n *Node) Accept(send func([]byte), hangUp func()) *Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastID++
	s := &Session{node: n, id: n.lastID, send: send, hangUp: hangUp, closed: n.stopped}
	if n.stopped {
		hangUp()
	} else {
		n.sessions[s] = true
	}
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
	for key, sessions := range n.trackers {
		if delete(sessions, s); len(sessions) == 0 {
			delete(n.trackers, key)
		}
	}
	for channel := range s.channels {
		n.leave(channel, s)
	}
	n.thawed.Broadcast()
}

// leave ends a subscription. mu is held.
func (n *Node) leave(channel string, s *Session) {
	if delete(n.channels[channel], s); len(n.channels[channel]) == 0 {
		delete(n.channels, channel)
	}
}

// now returns the node's clock in milliseconds. Redis keeps a key for up to a millisecond longer
// than asked for. This node keeps it for up to a millisecond less, because it cuts off the fraction
// and expires the key at its end. That is the worst case that lockpipe's drift allows for.
func (n *Node) now() int64 { return n.elapsed().Milliseconds() }

// elapsed returns for how long the node has run by its clock.
func (n *Node) elapsed() time.Duration {
	return time.Duration(float64(time.Since(n.epoch)) * n.rate)
}

// entry returns a key that has not expired. mu is held.
func (n *Node) entry(key string) (e entry, ok bool) {
	e, ok = n.keys[key]
	if ok && e.end != 0 && n.now() >= e.end {
		n.del(key)
		return entry{}, false
	}
	return e, ok
}

// get returns the value of a key that has not expired, "" for what is no string. mu is held.
func (n *Node) get(key string) (value string, ok bool) {
	e, ok := n.entry(key)
	return e.value, ok
}

// getString returns the value of a string, as MGET does. mu is held.
func (n *Node) getString(key string) (value string, ok bool) {
	e, ok := n.entry(key)
	return e.value, ok && e.isString()
}

// set sets a key for ttl milliseconds; 0: without an end. mu is held.
func (n *Node) set(key, value string, ttl int64) {
	e := entry{value: strings.Clone(value)} // which may be a part of much that a client sent
	if ttl != 0 {
		e.end = n.now() + ttl
	}
	if was, ok := n.get(key); n.OnTake != nil && (!ok || was != value) {
		n.OnTake(key, value, n.current)
	}
	n.put(key, e)
	n.reportScript("SET", key)
}

// put gives a key a value. mu is held.
func (n *Node) put(key string, e entry) {
	n.keys[strings.Clone(key)] = e
	n.changes++
	n.invalidate(key)
	if len(n.keys) > n.sweepAt {
		n.sweep()
	}
}

// minSweep is the number of keys below which expired ones may stay.
const minSweep = 1024

// sweep removes expired keys, which otherwise only a command for that key does. It leaves keys that
// a client tracks: that command notifies the client. mu is held.
func (n *Node) sweep() {
	now := n.now()
	maps.DeleteFunc(n.keys, func(key string, e entry) bool {
		return e.end != 0 && e.end <= now && len(n.trackers[key]) == 0
	})
	n.sweepAt = 2*len(n.keys) + minSweep
}

// setEnd lets a key that is there end at a time of the node's clock. mu is held.
func (n *Node) setEnd(key string, end int64) {
	e := n.keys[key]
	e.end = end
	n.keys[key] = e
	n.changes++
	n.invalidate(key)
}

// extend lets a key that is there end in ttl milliseconds, unless it ends later. mu is held.
func (n *Node) extend(key string, ttl int64) {
	if e := n.keys[key]; e.end == 0 || e.end < n.now()+ttl {
		n.setEnd(key, n.now()+ttl)
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
		n.changes++
		n.invalidate(key)
	}
}

// invalidate notifies the sessions that track the key, each once. mu is held.
func (n *Node) invalidate(key string) {
	if len(n.trackers[key]) == 0 {
		return
	}
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
func (n *Node) LiveKeys() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live("*")
}

// pttl returns the milliseconds that a key has left; -1: no end, -2: no key. mu is held.
func (n *Node) pttl(key string) int64 {
	e, ok := n.entry(key)
	switch {
	case !ok:
		return -2
	case e.end == 0:
		return -1
	}
	return e.end - n.now()
}
