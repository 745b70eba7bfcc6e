package kit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// Foreign is the value of a key that no client under test has.
const Foreign = "another client"

// endsAtLook is a context that ends when its Err is called for the nth time.
type endsAtLook struct {
	context.Context
	end   context.CancelFunc
	looks atomic.Int32 // that are left
}

func newEndsAtLook(parent context.Context, looks int) *endsAtLook {
	ctx, cancel := context.WithCancel(parent)
	e := &endsAtLook{Context: ctx, end: cancel}
	e.looks.Store(int32(looks))
	return e
}

func (e *endsAtLook) Err() error {
	if e.looks.Add(-1) <= 0 {
		e.end()
	}
	return e.Context.Err()
}

// SaysWhy calls AcquireAny with a context that ends after some looks, while no attempt can succeed.
func SaysWhy(t *testing.T, c *lockpipe.Client, keys []string, looks int, want error) {
	t.Helper()
	_, err := c.AcquireAny(newEndsAtLook(t.Context(), looks), keys)
	require.ErrorIs(t, err, context.Canceled, looks)
	switch made := c.Stats().Attempts; {
	case made > 1:
		require.ErrorIs(t, err, want, looks)
	case made == 1: // it may have been cut short
		require.True(t, errors.Is(err, want) || errors.Is(err, lockpipe.ErrNoQuorum),
			"%d: %v", looks, err)
	}
}

// BoundKey is the key of a value in a context.
type BoundKey struct{}

// EndedBy wants a context that has ended with this cause.
func EndedBy(ctx context.Context, t *testing.T, cause error) {
	t.Helper()
	require.Error(t, ctx.Err())
	synctest.Wait()
	select {
	case <-ctx.Done():
	default:
		require.Fail(t, "Done is open")
	}
	require.ErrorIs(t, context.Cause(ctx), cause)
}

// Async starts a call of AcquireAsync, which must be taken, and returns where its outcome comes.
func Async(ctx context.Context, t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan Outcome {
	t.Helper()
	ended := make(chan Outcome, 2) // a second call of done would be seen
	require.NoError(t, c.AcquireAsync(ctx, keys, func(l *lockpipe.Lease,
		err error,
	) {
		ended <- OutcomeNow(l, err)
	}, opts...))
	synctest.Wait()
	return ended
}

// WaitForAsync is AcquireAll by way of AcquireAsync.
func WaitForAsync(c *lockpipe.Client) func(context.Context, []string,
	...lockpipe.Option) (*lockpipe.Lease, error) {
	return func(ctx context.Context, keys []string, opts ...lockpipe.Option) (*lockpipe.Lease,
		error,
	) {
		ended := make(chan Outcome, 1)
		err := c.AcquireAsync(ctx, keys, func(l *lockpipe.Lease,
			err error,
		) {
			ended <- Outcome{Lease: l, Err: err}
		}, opts...)
		if err != nil {
			return nil, err
		}
		o := <-ended
		return o.Lease, o.Err
	}
}

// Acquiring are all calls that acquire, each as one that only tells its error.
var Acquiring = map[string]func(ctx context.Context, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option) error{
	"TryAcquireAll": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.TryAcquireAll(ctx, keys, opts...)
		return err
	},
	"AcquireAll": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.AcquireAll(ctx, keys, opts...)
		return err
	},
	"TryAcquireEach": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		var errs []error
		for _, r := range c.TryAcquireEach(ctx, keys, opts...) {
			errs = append(errs, r.Err)
		}
		return errors.Join(errs...)
	},
	"TryAcquire": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.TryAcquire(ctx, keys[0], opts...)
		return err
	},
	"Acquire": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.Acquire(ctx, keys[0], opts...)
		return err
	},
	"Do": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		return c.Do(ctx, keys[0], func(context.Context) error { return nil }, opts...)
	},
	"DoAll": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		return c.DoAll(ctx, keys, func(context.Context, *lockpipe.Lease) error { return nil },
			opts...)
	},
}

// Shape is one kind of acquiring call: its keys begin with name, and it gives back what it got, and
// the error of all that it did not get.
type Shape func(ctx context.Context, c *lockpipe.Client, name string,
	opts ...lockpipe.Option) ([]*lockpipe.Lease, error)

// Shapes differ in what is sent: one SET, one script call, more than fit into one, and many claims.
var Shapes = map[string]Shape{
	"one": func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.TryAcquire(ctx, name+":0", opts...))
	},
	"waiting": func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.Acquire(ctx, name+":0", opts...))
	},
	"three":   all(3),
	"600":     all(600),
	"each 3":  Each(3),
	"each 60": Each(60),
}

func alone(l *lockpipe.Lease, err error) ([]*lockpipe.Lease, error) {
	return []*lockpipe.Lease{l},
		err
}

func all(n int) Shape {
	return func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.TryAcquireAll(ctx, KeysOf(name, n), opts...))
	}
}

// Each is a call for n keys, each with a lease of its own.
func Each(n int) Shape {
	return func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) (got []*lockpipe.Lease, err error) {
		for _, r := range c.TryAcquireEach(ctx, KeysOf(name, n), opts...) {
			got, err = append(got, r.Lease), errors.Join(err, r.Err)
		}
		return got, err
	}
}

// KeysOf are n keys whose names begin with name.
func KeysOf(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", name, i)
	}
	return keys
}

// Outcome is how a waiting call ended, and when.
type Outcome struct {
	Lease *lockpipe.Lease
	Err   error
	At    time.Time
}

// OutcomeNow is the outcome of a call that ends now.
func OutcomeNow(l *lockpipe.Lease, err error) Outcome { return Outcome{l, err, time.Now()} }

// QueueFor starts a call that waits for the keys, and returns when it waits.
func QueueFor(ctx context.Context, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan Outcome {
	ended := Later(func() Outcome {
		l, err := c.AcquireAll(ctx, keys, opts...)
		return OutcomeNow(l, err)
	})
	synctest.Wait()
	return ended
}

// Queue is QueueFor for one key.
func Queue(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) <-chan Outcome {
	t.Helper()
	return QueueFor(t.Context(), c, []string{key}, opts...)
}

// Granted wants the call to have got its lease by now.
func Granted(t *testing.T, ended <-chan Outcome) *lockpipe.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-ended:
		require.NoError(t, o.Err)
		return o.Lease
	default:
		require.Fail(t, "it still waits")
	}
	panic("unreachable")
}

// Waits wants the call to wait still.
func Waits(t *testing.T, ended <-chan Outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-ended:
		require.Fail(t, "it does not wait any more", "%v", o.Err)
	default:
	}
}

// BehindAnother returns a lease of the key that was granted by the nodes to a caller of the queue,
// and a call that waits behind it and has never asked the nodes: it knows until when the keys
// are held.
func BehindAnother(t *testing.T, c *lockpipe.Client, key string,
	opts ...lockpipe.Option,
) (*lockpipe.Lease, <-chan Outcome) {
	t.Helper()
	// Nobody waits for both: it is really released.
	before, err := c.TryAcquireAll(t.Context(), []string{key, "beside " + key})
	require.NoError(t, err)
	first := Queue(t, c, key, opts...)
	second := Queue(t, c, key)
	require.NoError(t, before.Release(t.Context()))
	time.Sleep(60 * time.Millisecond)
	l := Granted(t, first)
	require.NotEqual(t, before.Token(), l.Token())
	return l, second
}

// Release is Lease.Release that must succeed.
func Release(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	require.NoError(t, l.Release(t.Context()))
}

// Wanted is a call that waits for keys; it waits already.
func Wanted(t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan *lockpipe.Lease {
	t.Helper()
	got := Later(func() *lockpipe.Lease {
		l, err := c.AcquireAll(t.Context(), keys, opts...)
		if err != nil {
			return nil
		}
		return l
	})
	synctest.Wait()
	return got
}

// TakeEach takes n leases in one call.
func TakeEach(t *testing.T, c *lockpipe.Client, name string, n int,
	opts ...lockpipe.Option,
) []*lockpipe.Lease {
	t.Helper()
	leases := make([]*lockpipe.Lease, n)
	for i, r := range c.TryAcquireEach(t.Context(), KeysOf(name, n), opts...) {
		require.NoError(t, r.Err)
		leases[i] = r.Lease
	}
	synctest.Wait()
	return leases
}

// HeldError is how a call ended that found its keys held.
func HeldError(t *testing.T, ended <-chan Outcome) (*lockpipe.HeldError, error) {
	t.Helper()
	o := <-ended
	var held *lockpipe.HeldError
	require.ErrorAs(t, o.Err, &held)
	return held, o.Err
}
