package locker

import (
	"context"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Lease is the right to its keys until it ends. It is the user's lease, with other methods.
type Lease struct {
	locker *Locker
	term   lease.Term
	claim  *parts.Claim // what the nodes have; another lease's once the term was handed off
	// Its own number of those that its claim reserved; 0 if there are none. It is negative if the
	// call did not ask for a fence, but one before it that handed the lease off.
	fence int64
	// Has the keys in the queue of the process; nil if the call did not wait.
	holder *keyqueue.Call
}

// newLease returns a lease for an attempt. It has up to so many fences above floor, and none
// without fencing. Its memory is one piece. Of leases that are extended automatically there may be
// many for long: that piece has no attempts, because each needs none between two extensions.
func (k *Locker) newLease(o *Options, keys []string, floor, fences int64) (l *Lease) {
	if o.MaxHold > 0 {
		memory := new(struct {
			lease Lease
			claim parts.Claim
		})
		l, memory.lease.claim = &memory.lease, &memory.claim
	} else {
		memory := new(struct {
			lease    Lease
			claim    parts.Claim
			attempts multiplex.Attempts
		})
		l, memory.lease.claim = &memory.lease, &memory.claim
		l.claim.UseMemory(&memory.attempts)
	}
	l.locker, l.holder = k, o.Turn
	random := k.tokens.Next()
	l.claim.Init(k.Mux, keys, string(random[:]), k.tokenSuffix)
	if fences > 0 {
		first, last := k.Fences.Reserve(floor, fences)
		l.claim.Fence(first, last)
		l.fence = first
	}
	return l
}

// IsZero reports whether l is nil or the zero value, which is no lease.
func (l *Lease) IsZero() bool { return l == nil || l.locker == nil }

// MaxTTL returns Config.MaxTTL.
func (l *Lease) MaxTTL() time.Duration { return l.locker.env.MaxTTL }

// Key returns the first key, without the prefix.
func (l *Lease) Key() string { return l.claim.Key(0) }

// Keys returns all keys in a new slice, in the order of the call, without the prefix.
func (l *Lease) Keys() []string { return l.claim.Keys() }

// Token returns the value of the keys on the nodes.
func (l *Lease) Token() string { return l.claim.Token() }

// Until returns when the lease ends; the zero time when it is over.
func (l *Lease) Until() (end time.Time) {
	if until := l.term.Until(); until != 0 {
		end = l.locker.clock.Time(until)
	}
	return end
}

// String says in an error which lease it is about.
func (l *Lease) String() string { return prefix.Keys(l.Key(), l.claim.Len()-1) }

// Err returns how the lease ended: see lease.Term.Err.
func (l *Lease) Err() error { return l.term.Err() }

// Context returns a context that ends with the lease: see lease.Term.Context.
func (l *Lease) Context() context.Context { return l.term.Context() }

// Bind returns a context that ends with ctx or the lease: see lease.Term.Bind.
func (l *Lease) Bind(ctx context.Context) (bound context.Context, unbind func()) {
	return l.term.Bind(context.WithValue(ctx, bindingKey{}, &binding{l, ctx}))
}

// binding is the value of a context that ends with a lease.
type binding struct {
	lease *Lease
	outer context.Context
}

type bindingKey struct{}

// outlive returns ctx, or another context if Keep or Release of a lease ends ctx. That one has the
// deadline of ctx, and ends with the context around those that Bind returned for such leases.
// cancel must be called.
func outlive(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ends := func(why error) bool { return why == lease.ErrKept || why == lease.ErrReleased }
	cancel = func() {}
	why, another := context.Cause(ctx), false
	if why != nil && !ends(why) {
		return ctx, cancel
	}
	deadline, limited := ctx.Deadline()
	b, bound := ctx.Value(bindingKey{}).(*binding)
	for ; bound; b, bound = b.outer.Value(bindingKey{}).(*binding) {
		if ends(b.lease.Err()) { // ctx may hear of that later
			ctx, another = b.outer, true
		}
	}
	if ends(context.Cause(ctx)) {
		ctx, another = context.WithoutCancel(ctx), true
	}
	if another && limited {
		ctx, cancel = context.WithDeadline(ctx, deadline)
	}
	return ctx, cancel
}

// isOwn reports whether ctx comes from a lease that has one of these keys.
func (k *Locker) isOwn(ctx context.Context, keys []string) bool {
	for {
		b, ok := ctx.Value(bindingKey{}).(*binding)
		if !ok {
			return false
		}
		has := func(key string) bool { return slices.Contains(keys, key) }
		if b.lease.locker == k && slices.ContainsFunc(b.lease.Keys(), has) {
			return b.lease.Err() == nil || ctx.Err() != nil
		}
		ctx = b.outer
	}
}
