package calls

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// triesPerNode is how many attempts in a row may follow changes of the keys and fail, until the
	// call watches the keys on another node: this one may be ahead of a quorum that holds them.
	triesPerNode = 2
	// maxFutileTries is how many such attempts the call makes. After that it waits for its delay.
	maxFutileTries = 3 * triesPerNode
)

// anyCall is one call that waits for any of its keys. Of the calls of this process for the same
// keys the first asks the nodes, and the others are behind it in the queue. Between two attempts it
// watches the keys.
type anyCall struct {
	calls  *Calls
	keys   []string
	opts   locker.Options
	turn   *keyqueue.Call // in Calls.pools
	behind bool           // other calls for the same keys were before it; set before advance
	parks  bool           // during an outage: all keys are in one group
	wake   func()         // has advance called; it does not block
	first  atomic.Bool    // it is its turn

	futile  int             // attempts in a row that followed changes and failed
	reason  *locker.Failure // of the last attempt that was decided; nil before the first
	parking parking         // during an outage
	// When the next attempt begins if no key changes, and if nodes report changes of all keys.
	latest, latestIfWatched time.Time
	watches                 []*multiplex.Watch // of the keys; nil before the first attempt failed
}

func newAnyCall(c *Calls, keys []string, o locker.Options, wake func()) *anyCall {
	s := &anyCall{calls: c, keys: keys, opts: o, wake: wake}
	s.turn = &keyqueue.Call{Caller: s}
	s.parks = len(c.locker.Mux.ByPlace(keys)) == 1
	s.parking.call.Arrived, s.parking.call.Wake = o.Start, wake
	return s
}

// enter puts the call into the queue, or reports that too many calls wait.
func (s *anyCall) enter() bool {
	runs, ok := s.calls.pools.Enter(s.turn, poolOf(s.keys), locker.MaxPending)
	if s.behind = !runs; runs {
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
func (s *anyCall) leave(*locker.Lease) {
	s.parking.finish()
	for _, w := range s.watches {
		w.Close()
	}
	s.calls.pools.Leave(s.turn, time.Now())
}

// advance implements pendingCall.
func (s *anyCall) advance(ctx context.Context) (l *locker.Lease, delay time.Duration,
	f *locker.Failure,
) {
	k := s.calls.locker
	if !s.first.Load() {
		end := k.EndReason(ctx)
		if end == nil || !s.calls.pools.GiveUp(s.turn) {
			return nil, noTimer, nil
		}
		return nil, 0, s.abort(end)
	}
	for {
		if end := k.EndReason(ctx); end != nil {
			return nil, 0, s.abort(end)
		}
		if delay = s.untilNext(); delay > 0 {
			return nil, delay, nil
		}
		if s.reason.IsNoQuorum() && s.parks && !s.parking.admit(s.calls, s.keys) {
			return nil, noTimer, nil
		}
		l, f = k.TryAny(ctx, s.keys, &s.opts, 1)
		switch {
		case f != nil && s.reason != nil && f.CutShort(ctx): // it says nothing new about the keys
			return nil, 0, s.abort(ctx.Err())
		case f == nil || !f.Retryable():
			return l, 0, f
		}
		s.failed(f)
	}
}

// failed takes why an attempt failed, and sets when the next one begins.
func (s *anyCall) failed(f *locker.Failure) {
	s.reason = f
	delay, now := s.opts.RetryDelay(), time.Now()
	if now.Before(s.latest) {
		s.futile++
	} else {
		s.futile = max(0, s.futile-1)
	}
	if f.IsNoQuorum() {
		s.futile = maxFutileTries // no change makes it better
		delay = waiting.NoQuorumDelay(delay)
	} else { // without a quorum the next call would hardly find one
		s.parking.finish()
	}
	s.latest, s.latestIfWatched = now.Add(delay), now.Add(waiting.PushDelayFactor*delay)
	s.subscribe()
}

// abort returns the failure of a call that ctx or Close ended with end.
func (s *anyCall) abort(end error) *locker.Failure {
	f := s.reason
	switch {
	case f != nil:
	case s.behind:
		f = locker.HeldInProcess(slices.Clone(s.keys))
	default: // it made no attempt
		return &locker.Failure{End: end}
	}
	return f.EndedBy(end).AfterWaiting(s.keys, s.opts.Start)
}

// subscribe asks a node for the TTL of each key, and for a report of its next change, unless the
// key is being watched.
func (s *anyCall) subscribe() {
	if s.watches == nil {
		for _, key := range s.keys {
			s.watches = append(s.watches, s.calls.locker.Mux.Watch(key, s.wake))
		}
	}
	for i, w := range s.watches {
		if is := w.State(); is.Active && (!is.Known || is.TTL > 0) {
			continue
		}
		if node := s.calls.locker.Mux.Arbiter(s.keys[i], s.futile/triesPerNode); node >= 0 {
			w.Subscribe(node)
		}
	}
}

// untilNext returns the time until the next attempt. It begins at once if a key may have become
// free: it has changed, or its node has none, or does not answer. But if that is so all the time,
// attempts that fail are of no use, and the call waits for its delay.
func (s *anyCall) untilNext() time.Duration {
	now := time.Now()
	left, free, held := s.latest.Sub(now), noTimer, len(s.watches) > 0
	notifies := true
	for _, w := range s.watches {
		is := w.State()
		switch {
		case is.Known:
			free = min(free, is.TTL)
		case !is.Active:
			free = 0
		}
		held = held && is.TTL > 0
		notifies = notifies && is.Notifies
	}
	if held = held && !s.reason.IsNoQuorum(); held {
		s.futile = 0 // the next change is a new one
	}
	if held && notifies {
		left = s.latestIfWatched.Sub(now)
	}
	if s.futile < maxFutileTries {
		left = min(left, free)
	}
	return left
}

// poolOf names the calls that want any of these keys, for Calls.pools. Two lists of keys hardly
// have the same name; if they have, their calls wait for each other's turns.
func poolOf(keys []string) []string { return []string{strings.Join(keys, "\x00")} }
