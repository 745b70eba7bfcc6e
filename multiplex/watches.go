package multiplex

import (
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
)

// arm is one watch on one node. It is listed before anything is sent, because the node may tell of
// the key before it is known to have answered. It is listed once: what was struck off stays off,
// and the next Arm makes a new one.
type arm struct {
	watch *Watch
	call  batch.Call[*arm]

	// Guarded by the node's watches.mu:
	next    *arm // another watch of the same key; not changed any more when it was struck off
	owed    bool // an answer is to come
	listed  bool
	remains remains
}

// remains is a node's answer to an arm. The zero value is none.
type remains struct {
	known bool
	told  bool      // the node tells of changes
	until time.Time // when the key has ended; zero: never
}

// watches are the armed watches of one node, by key.
type watches struct {
	mu     sync.Mutex // guards all below, and the arms; a leaf
	armed  map[string]*arm
	closed bool
}

// find returns the watch's arm. mu is held.
func (s *watches) find(w *Watch) *arm {
	a := s.armed[w.key]
	for a != nil && a.watch != w {
		a = a.next
	}
	return a
}

// list notes that the watch is being armed. owed: an answer is to come already. nil: it can't be
// armed any more.
func (s *watches) list(w *Watch) (a *arm, owed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || w.closed.Load() {
		return nil, false
	}
	if a = s.find(w); a == nil {
		if s.armed == nil {
			s.armed = make(map[string]*arm)
		}
		a = &arm{watch: w, listed: true, next: s.armed[w.key]}
		a.call.Op = a
		s.armed[w.key] = a
	}
	owed, a.owed = a.owed, true
	a.remains = remains{}
	return a, owed
}

// remains returns what is known of the watch's key.
func (s *watches) remains(w *Watch) remains {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.find(w); a != nil {
		return a.remains
	}
	return remains{}
}

// listed reports whether the watch is armed.
func (s *watches) listed(w *Watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(w) != nil
}

// answered takes the node's answer. It reports whether the watch is to be told: not where it was
// struck off before, since then it has been told already.
func (s *watches) answered(a *arm, r remains) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.listed {
		return false
	}
	a.owed, a.remains = false, r
	if !r.known {
		s.remove(a)
	}
	return true
}

// strike takes one arm off the list.
func (s *watches) strike(a *arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(a)
}

// end takes a watch off the list for good, and returns its arm where an answer is still to come.
func (s *watches) end(w *Watch) *arm {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.find(w)
	if a == nil {
		return nil
	}
	s.remove(a)
	if !a.owed {
		return nil
	}
	return a
}

// remove takes an arm off the list, if it is on it. mu is held.
func (s *watches) remove(a *arm) {
	if !a.listed {
		return
	}
	a.listed = false
	first := s.armed[a.watch.key]
	switch {
	case first != a:
		for first.next != a {
			first = first.next
		}
		first.next = a.next
	case a.next == nil:
		delete(s.armed, a.watch.key)
	default:
		s.armed[a.watch.key] = a.next
	}
}

// changed tells the watches of a key.
func (s *watches) changed(key string) {
	s.mu.Lock()
	first := s.armed[key]
	delete(s.armed, key)
	first.unlist()
	s.mu.Unlock()
	first.tell()
}

// lost tells all watches: the node will not tell them any more. closing: none is taken from now on.
func (s *watches) lost(closing bool) {
	s.mu.Lock()
	s.closed = s.closed || closing
	all := s.armed
	s.armed = nil
	for _, first := range all {
		first.unlist()
	}
	s.mu.Unlock()
	for _, first := range all {
		first.tell()
	}
}

// unlist marks a and those behind it. mu is held.
func (a *arm) unlist() {
	for ; a != nil; a = a.next {
		a.listed = false
	}
}

// tell wakes a and those behind it, which were struck off together.
func (a *arm) tell() {
	for ; a != nil; a = a.next {
		a.watch.call()
	}
}
