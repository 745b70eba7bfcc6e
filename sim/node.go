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
// and keys of type string only. Commands are executed at one instant; what takes time is the way to
// it and back.
type node struct {
	id    int
	rate  float64   // of its clock, against the true one
	epoch time.Time // when its clock began

	mu       sync.Mutex // guards all below, and the sessions; a leaf but for the ways
	keys     map[string]entry
	scripts  map[string]bool // by SHA-1
	tracked  map[string]map[*session]bool
	sessions map[*session]bool
	pushes   []*session       // that have something to be told
	ids      int64            // of sessions
	saved    map[string]entry // the keys as a snapshot has them
	// Whatever was written outlives a crash; set before anybody else has the node.
	durable    bool
	hidden     bool         // it does not show its run_id; set before anybody else has the node
	servers    int          // how many there have been at this address, this one included
	started    int64        // when this one began, by the node's clock
	promoted   bool         // this one was a replica
	promotions int          // of all of them: each draws another master_replid
	replica    bool         // this one is
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
		saved: map[string]entry{},
	}
	n.boot(map[string]entry{})
	return n
}

// boot begins with these keys. mu is held, or not needed yet.
func (n *node) boot(keys map[string]entry) {
	n.keys, n.scripts, n.tracked = keys, map[string]bool{}, map[string]map[*session]bool{}
	n.servers++
	n.started = n.now()
	// It keeps what the replica had: docs/guarantees.md says that nobody could notice.
	n.promoted = n.promoted && n.durable
}

// save makes a snapshot.
func (n *node) save() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.saved = maps.Clone(n.keys)
}

// restart is a crash: all connections break, and what came after the snapshot is lost, unless the
// node is durable.
func (n *node) restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangUp()
	if n.durable {
		n.boot(n.keys)
	} else {
		n.boot(maps.Clone(n.saved))
	}
}

// failover is a crash after which a replica of some age takes the place. It has what the snapshot
// has.
func (n *node) failover(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangUp()
	n.boot(maps.Clone(n.saved))
	n.started, n.promoted = n.started-age.Milliseconds(), true
}

// replace is a crash after which an empty server of some age takes the place. No client can notice
// that when it is not connected at that moment: see docs/guarantees.md.
func (n *node) replace(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangUp()
	n.saved = map[string]entry{}
	n.boot(map[string]entry{})
	n.started, n.promoted = n.started-age.Milliseconds(), false
}

// memoryCopy is what a node had at some time.
type memoryCopy struct {
	at   time.Time
	keys map[string]entry
}

// copy keeps a copy of the memory.
func (n *node) copy() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.copies = append(n.copies, memoryCopy{time.Now(), maps.Clone(n.keys)})
}

// before returns the copies from before a time.
func (n *node) before(t time.Time) []memoryCopy {
	n.mu.Lock()
	defer n.mu.Unlock()
	late := func(c memoryCopy) bool { return c.at.After(t) }
	if i := slices.IndexFunc(n.copies, late); i >= 0 {
		return n.copies[:i]
	}
	return n.copies
}

// restore is a crash after which the disk is put back from a copy.
func (n *node) restore(c memoryCopy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangUp()
	n.boot(maps.Clone(c.keys))
}

// demote makes the node a replica of a server that has these keys.
func (n *node) demote(keys map[string]entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangUp()
	n.keys, n.tracked, n.replica = keys, map[string]map[*session]bool{}, true
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

// keysFor returns the keys as another node would have them, which has another clock.
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

// jump moves the clock forward.
func (n *node) jump(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch = n.epoch.Add(-d)
}

// hangUp ends all connections. mu is held.
func (n *node) hangUp() {
	for _, s := range n.inOrder(n.sessions) {
		n.drop(s)
		s.hangUp()
	}
}

// flush loses the keys and tells who tracks any.
func (n *node) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.saved = map[string]entry{}
	n.flushAll()
	n.tell(nil)
}

// flushAll is flush for a command. mu is held.
func (n *node) flushAll() {
	n.keys, n.tracked = map[string]entry{}, map[string]map[*session]bool{}
	for _, s := range n.inOrder(n.sessions) {
		if s.tracking && s.resp3 {
			s.push = append(s.push, ">2\r\n$10\r\ninvalidate\r\n_\r\n"...)
			n.pushes = append(n.pushes, s)
		}
	}
}

// inOrder returns sessions, the oldest first, so that what is done to them does not depend on a
// map's order.
func (*node) inOrder(sessions map[*session]bool) []*session {
	return slices.SortedFunc(maps.Keys(sessions),
		func(a, b *session) int { return int(a.id - b.id) })
}

// open begins a session with a client.
func (n *node) open(reply func([]byte), hangUp func()) *session {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids++
	s := &session{node: n, id: n.ids, reply: reply, hangUp: hangUp}
	s.commands = resptest.NewReader(&s.in)
	n.sessions[s] = true
	return s
}

// drop ends a session. mu is held.
func (n *node) drop(s *session) {
	s.over = true
	delete(n.sessions, s)
	for _, who := range n.tracked {
		delete(who, s)
	}
}

// now is the node's clock in milliseconds. Redis keeps a key for some of a millisecond longer than
// asked for; this node, because it cuts off the fraction and expires at the end, for some less.
// That is the worst that the clock drift allows for.
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

// set gives a key a value for ttl milliseconds; 0: without an end. mu is held.
func (n *node) set(key, value string, ttl int64) {
	e := entry{value: value}
	if ttl != 0 {
		e.end = n.now() + ttl
	}
	n.keys[key] = e
	n.changed(key)
}

// del removes a key, if it is there. mu is held.
func (n *node) del(key string) {
	if _, ok := n.keys[key]; ok {
		delete(n.keys, key)
		n.changed(key)
	}
}

// changed tells those who track the key; each is told once. mu is held.
func (n *node) changed(key string) {
	for _, s := range n.inOrder(n.tracked[key]) {
		s.push = append(s.push, ">2\r\n$10\r\ninvalidate\r\n"...)
		s.push = resp.AppendCommand(s.push, key) // an array of one string
		n.pushes = append(n.pushes, s)
	}
	delete(n.tracked, key)
}

// tell sends what sessions are to be told; self is the one whose reply is being made. mu is held.
func (n *node) tell(self *session) {
	for _, s := range n.pushes {
		switch {
		case s == self:
			s.out = append(s.out, s.push...)
		case len(s.push) > 0 && !s.over:
			s.reply(s.push)
		}
		s.push = nil
	}
	n.pushes = n.pushes[:0]
}

// until returns when the node will have forgotten the token of a key, by the true clock; the zero
// time where it has another value or none.
func (n *node) until(key, token string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if value, ok := n.get(key); !ok || value != token {
		return time.Time{}
	}
	return n.epoch.Add(time.Duration(float64(n.keys[key].end*int64(time.Millisecond)) / n.rate))
}

// marked reports whether the node has a marker: of its own server, or of one that was there before,
// or of a loss.
func (n *node) marked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.get(prefix + "lockpipe:admitted")
	return ok
}

// left returns the keys that the node has.
func (n *node) left() (keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		if _, ok := n.get(key); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
