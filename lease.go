package lockpipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
)

// Lease is the right to its keys until it ends: by Release or Keep, by Close of the client, when an
// extension finds it lost, or when its time runs out on the local clock. All methods are safe for
// concurrent use. A nil Lease and the zero Lease hold nothing and are over: ErrReleased.
type Lease struct {
	client *Client
	term   lease.Term
	claim  *parts.Claim  // what the nodes have; another lease's once the term was handed off
	chain  *handoffChain // nil unless it was handed off
	// Has the keys in the queue of the process; nil if the call did not wait.
	holder *keyqueue.Call
}

// isZero reports whether l is nil or the zero value, which no call of a Client has returned.
func (l *Lease) isZero() bool { return l == nil || l.client == nil }

// newLease returns a lease for an attempt. It has up to so many fences above floor, and none
// without fencing.
func (c *Client) newLease(keys []string, floor, fences int64) *Lease {
	both := new(struct { // one allocation
		lease Lease
		claim parts.Claim
	})
	random := c.tokens.Next()
	both.claim.Init(c.mux, keys, string(random[:]), c.tokenSuffix)
	if fences > 0 {
		now := time.Now()
		first, last := c.fences.Reserve(floor, fences)
		both.claim.Fence(now, first, last)
	}
	both.lease.client, both.lease.claim = c, &both.claim
	return &both.lease
}

// Key returns the first key, without the prefix.
func (l *Lease) Key() string {
	if l.isZero() {
		return ""
	}
	return l.claim.Key(0)
}

// Keys returns all keys, each once, in the order of the call, without the prefix. The slice is the
// caller's.
func (l *Lease) Keys() []string {
	if l.isZero() {
		return nil
	}
	keys := make([]string, l.claim.Len())
	for i := range keys {
		keys[i] = l.claim.Key(i)
	}
	return keys
}

// Token returns the value of the keys on the nodes: 27 random characters, and behind them an @ and
// Config.Owner, unless that is NoOwner. No other lease has it at the same time. If the lease is
// handed off within the process, the next holder's lease has the same token.
func (l *Lease) Token() string {
	if l.isZero() {
		return ""
	}
	return l.claim.Token()
}

// Until returns when the lease ends unless it is extended. The time has a monotonic clock reading.
// Until returns the zero time when the lease is over. If the machine was suspended, later calls
// return an earlier time.
func (l *Lease) Until() time.Time {
	if l.isZero() {
		return time.Time{}
	}
	return l.term.Until()
}

// Err returns nil while the lease lasts, and then how it ended: ErrReleased, ErrKept, ErrExpired,
// ErrLost or ErrClosed. It reads the clock. So it is correct after the process was stopped too, and
// on Linux, macOS and Windows after the machine was suspended. docs/guarantees.md names the
// exceptions.
func (l *Lease) Err() error {
	if l.isZero() {
		return ErrReleased
	}
	return l.term.Err()
}

// Context returns a context that is cancelled when the lease ends, whatever the network does.
// context.Cause returns how it ended, as Err does. Run work under it that must stop without the
// lock. It comes from no other context: the context of the acquiring call neither ends it nor gives
// it values.
func (l *Lease) Context() context.Context {
	if l.isZero() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrReleased)
		return ctx
	}
	return l.term.Context()
}

// Done returns the channel of Context, which is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Release ends the lease. If another call of this Client waits for the same keys, Release may hand
// the lease to that call: it sends nothing and returns nil. Otherwise Release deletes each key on
// every node that may hold the lease's token, if the key still holds it. It returns nil when a
// quorum of nodes is known not to hold the token any more, also if the lease was released before.
// After Keep it does nothing and returns nil.
// If the lease had ended otherwise, Release returns ErrExpired, ErrLost or ErrClosed at once:
// another may hold the keys. ErrNoQuorum, or ctx's error, means that the release is not confirmed
// yet. It continues in the background, and another Release waits for it.
func (l *Lease) Release(ctx context.Context) error {
	switch {
	case l.isZero():
		return nil
	case ctx == nil:
		return errNilContext
	}
	r, err := l.startRelease(l.claim.Len())
	if r.attempt == nil {
		return err
	}
	return l.endRelease(r, attemptError(r.attempt.Wait(ctx, time.Time{})))
}

// ReleaseAll is Release for many leases, in one round trip to each node. The error joins the errors
// that Release would have returned, each with its key. A nil Lease and the zero
// Lease are skipped.
func (c *Client) ReleaseAll(ctx context.Context, leases ...*Lease) error {
	if ctx == nil {
		return errNilContext
	}
	releases := make([]startedRelease, len(leases))
	errs := make([]error, len(leases))
	keys := 0
	for _, l := range leases {
		if !l.isZero() {
			keys += l.claim.Len()
		}
	}
	for i, l := range leases {
		if !l.isZero() {
			releases[i], errs[i] = l.startRelease(keys)
		}
	}
	began := time.Now()
	var failed []error
	for i, r := range releases {
		if r.attempt != nil {
			errs[i] = leases[i].endRelease(r, attemptError(r.attempt.Wait(ctx, began)))
		}
		if errs[i] != nil {
			failed = append(failed, errorf("%.64q: %w", leases[i].Key(), errs[i]))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &joined{failed}
}

// startedRelease is a release that is under way. Without an attempt there is nothing to wait for:
// the lease was handed off, or was over.
type startedRelease struct {
	attempt parts.Attempt
	first   bool // the lease was held until then
}

// endRelease takes the outcome of a release, and returns it.
func (l *Lease) endRelease(r startedRelease, outcome error) error {
	l.client.outcomes.released(outcome)
	if r.first {
		l.client.notifyReleased(l)
	}
	return outcome
}

// startRelease ends the term and sends the release; keys is how many keys are released together.
func (l *Lease) startRelease(keys int) (r startedRelease, err error) {
	// Close waits for the calls that are counted here, so that it does not close the nodes before
	// the release is sent.
	l.client.calls.Add(1)
	defer l.client.endCall()
	var next *waitingCall
	if r.first = l.term.Err() == nil; r.first { // else the one that ended it passes the keys on
		next = l.client.successor(l)
	}
	if next != nil && l.handOff(next) {
		l.client.outcomes.releasedUnsent(outcomes.HandedOver)
		return startedRelease{}, nil
	}
	end := l.term.End(ErrReleased)
	if l.term.HandedOff() || end == ErrKept { // maybe by another call at the same time
		if next != nil {
			next.begin(nil)
		}
		unsent := outcomes.HandedOver
		if end == ErrKept {
			unsent = outcomes.AlreadyEnded
		}
		l.client.outcomes.releasedUnsent(unsent)
		return startedRelease{}, nil
	}
	r.attempt = l.client.mux.Release(l.claim, keys)
	if r.first {
		l.client.passOn(l, next) // behind the release, so that both go in one flush
	}
	if !errors.Is(end, ErrReleased) {
		l.client.outcomes.releasedUnsent(outcomes.AlreadyEnded)
		return startedRelease{}, end
	}
	return r, nil
}

// releaseInBackground deletes what the nodes have of the lease, and waits for nothing.
func (l *Lease) releaseInBackground() {
	if l.term.HandedOff() || l.term.Err() == ErrKept {
		return // its keys are not its own any more
	}
	l.client.mux.Release(l.claim, l.claim.Len())
	l.client.passOn(l, nil)
}
