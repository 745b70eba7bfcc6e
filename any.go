package lockpipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/multiplex"
)

// maxAnyTries is how many attempts TryAcquireAny makes if others take keys at the same moment.
const maxAnyTries = 3

// Slots returns the keys name:1 to name:n. AcquireAny of them lets at most n callers hold one at
// the same time: a semaphore. All callers must use the same n. Each slot has a quorum of its own. A
// counter on each node would admit more than n callers. For example, n is 2, and the callers have
// the nodes 1 and 2, 2 and 3, 1 and 3: three majorities, and each node counts two.
func Slots(name string, n int) []string {
	keys := make([]string, max(n, 0))
	for i := range keys {
		keys[i] = name + ":" + strconv.Itoa(i+1)
	}
	return keys
}

// TryAcquireAny takes one of keys that nobody holds, in one attempt of one round trip. Lease.Key
// says which one. Which of several free keys it takes is random. It never holds more than one, and
// what a node took besides is released. If others take keys at the same moment, it makes up to
// three attempts. ErrHeld means that all of them are held, or that others were faster.
// Keys of several groups are tried one group after the other, so a pool of keys is best kept in one
// group: see Config.Groups. ErrHeld then means that some are held, and no quorum for the rest.
//
// It takes 250 keys at most, and no WithFencing. The other errors are those of TryAcquire.
func (c *Client) TryAcquireAny(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	l, err := c.tryAcquireAny(ctx, keys, opts)
	if err != nil {
		c.outcomes.failed(outcomes.Try, err, 1)
	}
	return l, err
}

// AcquireAny is TryAcquireAny, but it waits while all keys are held or no quorum can be reached,
// until ctx ends. Calls of this Client with the same keys in the same order are granted in the
// order of arrival. The errors are those of Acquire, and ErrHeld has all of the keys.
func (c *Client) AcquireAny(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	l, err := c.acquireAny(ctx, keys, opts)
	if err != nil {
		c.outcomes.failed(outcomes.Wait, err, 1)
	}
	return l, err
}

func (c *Client) tryAcquireAny(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.validateAny(ctx, outcomes.Try, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.beginCall(); err != nil {
		return nil, err
	}
	defer c.endCall()
	return c.attemptAny(ctx, keys, o, maxAnyTries)
}

func (c *Client) acquireAny(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.validateAny(ctx, outcomes.Wait, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.beginCall(); err != nil {
		return nil, err
	}
	defer c.endCall()
	if err := ctx.Err(); err != nil {
		return nil, errorf("%w", err)
	}
	o.start = time.Now()
	var failed error
	if o.maxAttempts == 0 && !c.pools.Knows(poolOf(keys)) {
		l, err := c.attemptAny(ctx, keys, o, maxAnyTries)
		if err == nil || !retryable(err) || cutShort(ctx, err) {
			return l, o.finalError(keys, err)
		}
		failed = err
	}
	wake := make(chan struct{}, 1)
	s := newAnyCall(c, keys, o, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if o.maxAttempts > 0 {
		s.first.Store(true)
	} else if !s.enter() {
		return nil, ErrOverloaded
	}
	if s.reason = failed; failed != nil && s.first.Load() {
		s.failed(failed)
	}
	return c.drive(ctx, s, wake)
}

// validateAny is validateCall for a call that wants one of the keys.
func (c *Client) validateAny(ctx context.Context, kind outcomes.Call, keys []string,
	opts []Option,
) ([]string, callOptions, error) {
	keys, o, err := c.validateCall(ctx, kind, keys, opts)
	switch {
	case err != nil:
	case len(keys) > multiplex.MaxAny:
		err = invalid("%d keys of which to take any: give at most %d", len(keys), multiplex.MaxAny)
	case o.fencing:
		err = invalid("WithFencing for any of %d keys: fences are for a certain key: take it with "+
			"Acquire", len(keys))
	}
	return keys, o, err
}

// attemptAny tries to take one of the keys: those of one group after the other, and in each up to
// so many times if others take keys meanwhile.
func (c *Client) attemptAny(ctx context.Context, keys []string, o callOptions, tries int) (*Lease,
	error,
) {
	shares := c.mux.ByPlace(keys)
	if len(shares) > 1 {
		first := rand.N(len(shares))
		shares = append(slices.Clone(shares[first:]), shares[:first]...)
	}
	var failed error
	var held []string // by others
	for _, some := range shares {
		l, err := c.attemptAnyHere(ctx, some, o, tries)
		switch {
		case err == nil:
			return l, nil
		case !retryable(err) || cutShort(ctx, err):
			return nil, err
		case errors.Is(err, ErrHeld):
			failed, held = err, append(held, some...)
		case failed == nil:
			failed = err
		}
	}
	return nil, withKeys(failed, held)
}

// attemptAnyHere is attemptAny for keys of one group.
func (c *Client) attemptAnyHere(ctx context.Context, keys []string, o callOptions, tries int) (
	*Lease, error,
) {
	if len(keys) == 1 {
		return c.attempt(ctx, keys, o)
	}
	for ; ; tries-- {
		if err := ctx.Err(); err != nil {
			return nil, errorf("%w", err)
		}
		o.suspended = c.suspended()
		l := c.newLease(rotated(keys), 0, 0)
		a := c.mux.AcquireAny(l.claim, o.ttl)
		held, err := c.finishAttempt(l, a, o, attemptError(a.Wait(ctx, time.Time{})))
		if err == nil || tries == 1 || !retryable(err) || !a.Split() {
			return held, err
		}
		// If it is not confirmed, at worst the next attempt is refused.
		_ = c.mux.Release(l.claim, len(keys)).Wait(ctx, time.Time{})
	}
}

// rotated returns keys from a random one on, so that callers seldom want the same one first.
func rotated(keys []string) []string {
	first := rand.N(len(keys))
	return append(append(make([]string, 0, len(keys)), keys[first:]...), keys[:first]...)
}

// withKeys returns err with these keys, if it is that they are held.
func withKeys(err error, keys []string) error {
	var held *HeldError
	if errors.As(err, &held) {
		held.Keys = keys
	}
	return err
}

// poolOf names the calls that want any of these keys, for Client.pools. Two lists of keys hardly
// have the same name; if they have, their calls wait for each other's turns.
func poolOf(keys []string) []string { return []string{strings.Join(keys, "\x00")} }
