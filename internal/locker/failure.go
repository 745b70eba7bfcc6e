package locker

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Failure is why an attempt or a call got no lease. The root package makes its error.
type Failure struct {
	// Votes are those of the attempt, or of the last attempt of the call. Held may also say that
	// other calls of the process had the keys, without Nodes, or that a node was seen to have
	// another's token. Won: a quorum granted, but Passed of the TTL had passed. 0: there was no
	// attempt.
	Votes       multiplex.Outcome
	Passed, TTL time.Duration
	Token       string // of the last attempt; nodes may still have it for a moment
	Closing     bool   // the client was being closed when the votes were counted
	// End is why the call ended before it was granted: ctx's error, lease.ErrClosed or
	// batch.ErrOverloaded. It is nil if the votes have it too.
	End error

	// For how long the keys that were found held still last, who has them, and how many processes
	// are before this one in the line; zero: not known.
	RetryAfter time.Duration
	Owner      string
	Ahead      int
	Own        bool // the call's ctx comes from the lease that has such a key

	// Of a call that gave up waiting: for how long it waited, and the text for its keys; else "".
	Waited    time.Duration
	WaitedFor string
}

// Overloaded is the failure of a call that is refused because too many are pending.
func Overloaded() *Failure { return &Failure{End: batch.ErrOverloaded} }

// Held is the failure of a call that made no attempt, because these nodes have another's token for
// these keys. Without nodes other calls of the process have the keys.
func Held(keys, nodes []string) *Failure {
	return &Failure{Votes: multiplex.Outcome{Result: multiplex.Held, Keys: keys, Nodes: nodes}}
}

// IsHeld reports whether another holds a key. It may be called on nil, as IsNoQuorum.
func (f *Failure) IsHeld() bool { return f != nil && f.Votes.Result == multiplex.Held }

// IsNoQuorum reports whether too few nodes granted in time, for other reasons.
func (f *Failure) IsNoQuorum() bool {
	return f != nil && (f.Votes.Result == multiplex.NoQuorum || f.Votes.Result == multiplex.Won)
}

// Retryable reports whether a further attempt may succeed.
func (f *Failure) Retryable() bool { return f.Votes.Result != 0 && !f.has(batch.ErrOverloaded) }

// CutShort reports whether the end of ctx cut the attempt short.
func (f *Failure) CutShort(ctx context.Context) bool {
	end := ctx.Err()
	return end != nil && f.has(end)
}

// has reports whether the error of f is to be this one, by errors.Is.
func (f *Failure) has(err error) bool {
	has := errors.Is(f.End, err) || errors.Is(f.Votes.Ended, err) ||
		f.Closing && err == lease.ErrClosed
	for _, n := range f.Votes.NoVotes {
		has = has || errors.Is(n.Err, err)
	}
	return has
}

// EndedBy adds why the call ended, and returns f.
func (f *Failure) EndedBy(end error) *Failure {
	if !f.has(end) {
		f.End = end
	}
	return f
}

// AfterWaiting makes f the failure of a call that waited for these keys since then, and returns it.
func (f *Failure) AfterWaiting(keys []string, since time.Time) *Failure {
	f.Waited, f.WaitedFor = time.Since(since), prefix.Keys(keys[0], len(keys)-1)
	return f
}

// outcome returns how a call or an attempt ended; nil: it was granted.
func (f *Failure) outcome() stats.Outcome {
	switch {
	case f == nil:
		return stats.Granted
	case f.has(lease.ErrClosed):
		return stats.Closed
	case f.has(context.Canceled) || f.has(context.DeadlineExceeded):
		return stats.Canceled
	case f.has(batch.ErrOverloaded):
		return stats.Overloaded
	case f.IsHeld() || f.End == lease.ErrExpired:
		return stats.Held
	}
	return stats.NoQuorum
}
