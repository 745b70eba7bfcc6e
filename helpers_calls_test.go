package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// async starts a call of AcquireAsync, which must be taken, and returns where its outcome comes.
func async(ctx context.Context, t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan outcome {
	t.Helper()
	ended := make(chan outcome, 2) // a second call of done would be seen
	require.NoError(t, c.AcquireAsync(ctx, keys, func(l *lockpipe.Lease,
		err error,
	) {
		ended <- outcome{l, err, time.Now()}
	}, opts...))
	synctest.Wait()
	return ended
}

// waitForAsync is AcquireAll by way of AcquireAsync.
func waitForAsync(c *lockpipe.Client) func(context.Context, []string,
	...lockpipe.Option) (*lockpipe.Lease, error) {
	return func(ctx context.Context, keys []string, opts ...lockpipe.Option) (*lockpipe.Lease,
		error,
	) {
		ended := make(chan outcome, 1)
		err := c.AcquireAsync(ctx, keys, func(l *lockpipe.Lease,
			err error,
		) {
			ended <- outcome{lease: l, err: err}
		}, opts...)
		if err != nil {
			return nil, err
		}
		o := <-ended
		return o.lease, o.err
	}
}

// acquiring are all calls that acquire, each as one that only tells its error.
var acquiring = map[string]func(ctx context.Context, c *lockpipe.Client, keys []string,
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

// shape is one kind of acquiring call: its keys begin with name, and it gives back what it got, and
// the error of all that it did not get.
type shape func(ctx context.Context, c *lockpipe.Client, name string,
	opts ...lockpipe.Option) ([]*lockpipe.Lease, error)

// shapes differ in what is sent: one SET, one script call, more than fit into one, and many claims.
var shapes = map[string]shape{
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
	"each 3":  each(3),
	"each 60": each(60),
}

func alone(l *lockpipe.Lease, err error) ([]*lockpipe.Lease, error) {
	return []*lockpipe.Lease{l},
		err
}

func all(n int) shape {
	return func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.TryAcquireAll(ctx, keysOf(name, n), opts...))
	}
}

func each(n int) shape {
	return func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) (got []*lockpipe.Lease, err error) {
		for _, r := range c.TryAcquireEach(ctx, keysOf(name, n), opts...) {
			got, err = append(got, r.Lease), errors.Join(err, r.Err)
		}
		return got, err
	}
}

func keysOf(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", name, i)
	}
	return keys
}

// result is what a call of a shape gave.
type result struct {
	got []*lockpipe.Lease
	err error
}

// outcome is how a waiting call ended, and when.
type outcome struct {
	lease *lockpipe.Lease
	err   error
	at    time.Time
}

// queueFor starts a call that waits for the keys, and returns when it waits.
func queueFor(ctx context.Context, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan outcome {
	ended := later(func() outcome {
		l, err := c.AcquireAll(ctx, keys, opts...)
		return outcome{l, err, time.Now()}
	})
	synctest.Wait()
	return ended
}

// queue is queueFor for one key.
func queue(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) <-chan outcome {
	t.Helper()
	return queueFor(t.Context(), c, []string{key}, opts...)
}

// granted wants the call to have got its lease by now.
func granted(t *testing.T, ended <-chan outcome) *lockpipe.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-ended:
		require.NoError(t, o.err)
		return o.lease
	default:
		require.Fail(t, "it still waits")
	}
	panic("unreachable")
}

// waits wants the call to wait still.
func waits(t *testing.T, ended <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-ended:
		require.Fail(t, "it does not wait any more", "%v", o.err)
	default:
	}
}

// behindAnother returns a lease of the key that was granted by the nodes to a caller of the queue,
// and a call that waits behind it and has never asked the nodes: it knows until when the keys
// are held.
func behindAnother(t *testing.T, c *lockpipe.Client, key string,
	opts ...lockpipe.Option,
) (*lockpipe.Lease, <-chan outcome) {
	t.Helper()
	// Nobody waits for both: it is really released.
	before, err := c.TryAcquireAll(t.Context(), []string{key, "beside " + key})
	require.NoError(t, err)
	first := queue(t, c, key, opts...)
	second := queue(t, c, key)
	require.NoError(t, before.Release(t.Context()))
	time.Sleep(60 * time.Millisecond)
	l := granted(t, first)
	require.NotEqual(t, before.Token(), l.Token())
	return l, second
}

// release is Release that must succeed.
func release(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	require.NoError(t, l.Release(t.Context()))
}

// wanted is a call that waits for keys; it waits already.
func wanted(t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan *lockpipe.Lease {
	t.Helper()
	got := later(func() *lockpipe.Lease {
		l, err := c.AcquireAll(t.Context(), keys, opts...)
		if err != nil {
			return nil
		}
		return l
	})
	synctest.Wait()
	return got
}
