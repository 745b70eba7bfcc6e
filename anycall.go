package lockpipe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/multiplex"
)

// watchedDelay is how many times as long a call waits between two attempts if nodes report changes
// of all its keys.
const watchedDelay = 8

// anyCall is one call that waits for any of its keys. Of the calls of this process for the same
// keys the first asks the nodes, and the others are behind it in the queue. Between two attempts it
// watches the keys.
type anyCall struct {
	client *Client
	keys   []string
	opts   callOptions
	turn   *keyqueue.Call // in the queue of those that want the same keys
	wake   func()         // has advance called; it does not block
	first  atomic.Bool    // it is its turn

	attempts int
	reason   error // of the last attempt that was decided; nil before the first
	// The next attempt begins between soonest and latest, or latestIfWatched if nodes report
	// changes of all keys.
	soonest, latest, latestIfWatched time.Time
	watches                          []watchedKey // nil before the first attempt failed
}

// watchedKey is a key that one node is asked about.
type watchedKey struct {
	*multiplex.Watch
	known bool // the node has answered
}

func newAnyCall(c *Client, keys []string, o callOptions, wake func()) *anyCall {
	s := &anyCall{client: c, keys: keys, opts: o, wake: wake}
	s.turn = &keyqueue.Call{Caller: s}
	return s
}

// enter puts the call into the queue, or reports that too many calls wait.
func (s *anyCall) enter() bool {
	runs, ok := s.client.queue.Enter(s.turn, poolOf(s.keys), maxPending)
	if runs {
		s.first.Store(true)
	}
	return ok
}

// Run implements keyqueue.Caller.
func (s *anyCall) Run() {
	s.first.Store(true)
	s.wake()
}

// Reserving implements keyqueue.Caller. A call reserves only if it wants several keys of the queue.
func (s *anyCall) Reserving() {}

// Released implements keyqueue.Caller. The call never contends.
func (s *anyCall) Released() {}

// leave implements pendingCall. The next call has its turn, also if this one has a lease.
func (s *anyCall) leave(*Lease) {
	for _, w := range s.watches {
		w.Close()
	}
	s.client.queue.Leave(s.turn, time.Now())
}

// advance implements pendingCall.
func (s *anyCall) advance(ctx context.Context) (l *Lease, delay time.Duration, err error) {
	if !s.first.Load() {
		end := s.client.endReason(ctx)
		if end == nil || !s.client.queue.GiveUp(s.turn) {
			return nil, noTimer, nil
		}
		return nil, 0, s.abortError(end)
	}
	for {
		if end := s.client.endReason(ctx); end != nil {
			return nil, 0, s.abortError(end)
		}
		if delay = s.untilNext(); delay > 0 {
			return nil, delay, nil
		}
		l, err = s.client.attemptAny(ctx, s.keys, s.opts, 1)
		if err == nil || !retryable(err) {
			return l, 0, err
		}
		if s.reason == nil || !cutShort(ctx, err) {
			s.reason = err
		}
		if s.attempts++; s.attempts == s.opts.maxAttempts {
			return nil, 0, s.opts.finalError(s.keys, err)
		}
		s.failed(err)
	}
}

// failed takes why an attempt failed, and sets when the next one may begin. Without a quorum no
// watch makes it sooner.
func (s *anyCall) failed(err error) {
	delay, now := s.opts.retryDelay(), time.Now()
	s.soonest, s.latest = now.Add(max(s.opts.minDelay, time.Millisecond)), now.Add(delay)
	if errors.Is(err, ErrNoQuorum) {
		s.soonest = now.Add(waiting.NoQuorumDelay(delay))
	}
	s.latestIfWatched = now.Add(watchedDelay * delay)
	s.subscribe()
}

// abortError returns the error of a call that ctx or Close ended with end.
func (s *anyCall) abortError(end error) error {
	reason := s.reason
	if reason == nil { // calls before it had their turn all the time
		reason = withAllKeys(&HeldError{}, s.keys)
	}
	return s.opts.finalError(s.keys, withEnd(reason, end))
}

// subscribe asks a node for the TTL of each key, and for a report of its next change, unless the
// key is being watched.
func (s *anyCall) subscribe() {
	if s.watches == nil {
		s.watches = make([]watchedKey, len(s.keys))
		for i, key := range s.keys {
			s.watches[i].Watch = s.client.mux.Watch(s.client.cfg.Prefix+key, s.wake)
		}
	}
	for i := range s.watches {
		w := &s.watches[i]
		if ttl, known := w.TTL(); w.Active() && !(known && ttl == 0) {
			continue
		}
		w.known = false
		if node := s.client.mux.Arbiter(s.client.cfg.Prefix+s.keys[i], 0); node >= 0 {
			w.Subscribe(node)
		}
	}
}

// untilNext returns the time until the next attempt: it begins soon if a key has changed or ended.
func (s *anyCall) untilNext() time.Duration {
	now := time.Now()
	ends, watched := multiplex.Forever, true
	for i := range s.watches {
		w := &s.watches[i]
		ttl, known := w.TTL()
		if w.known && !w.Active() { // a node has reported a change
			ttl, known = 0, true
		}
		if known {
			w.known, ends = true, min(ends, ttl)
		}
		watched = watched && known && w.Notifies()
	}
	left := s.latest.Sub(now)
	if watched {
		left = s.latestIfWatched.Sub(now)
	}
	return max(min(left, ends), s.soonest.Sub(now))
}
