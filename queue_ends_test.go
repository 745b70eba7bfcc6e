package lockpipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// endsOfALease are the ends of a lease that waited for its key, and so has it in the queue of the
// process.
var endsOfALease = map[string]func(t *testing.T, v *fakeNodes, c *lockpipe.Client,
	l *lockpipe.Lease){
	"Release": func(t *testing.T, _ *fakeNodes, _ *lockpipe.Client, l *lockpipe.Lease) {
		require.NoError(t, l.Release(t.Context()))
	},
	"Release twice at once": func(t *testing.T, _ *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		other := later(func() error { return l.Release(t.Context()) })
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-other)
	},
	"ReleaseAll": func(t *testing.T, _ *fakeNodes, c *lockpipe.Client, l *lockpipe.Lease) {
		require.NoError(t, c.ReleaseAll(t.Context(), l, l, nil))
	},
	"Release while the nodes are silent": func(t *testing.T, v *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.silence(0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.Release(ctx))
		v.speak(0, 1, 2)
	},
	"Release with a ctx that is over": func(t *testing.T, _ *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = l.Release(ctx)
	},
	"expiry": func(_ *testing.T, _ *fakeNodes, _ *lockpipe.Client, l *lockpipe.Lease) {
		<-l.Done()
	},
	"expiry after a shorter extension": func(t *testing.T, _ *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		require.NoError(t, l.Extend(t.Context(), 100*time.Millisecond)) // needs a cleanup
		<-l.Done()
	},
	"expiry seen by Err first": func(t *testing.T, _ *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		time.Sleep(time.Until(l.Until()))
		require.Error(t, l.Err())
		require.Error(t, l.Release(t.Context()))
	},
	"expiry while an extension hangs": func(t *testing.T, v *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.silence(0, 1, 2)
		require.Error(t, l.Extend(t.Context(), 20*time.Second))
		v.speak(0, 1, 2)
	},
	"Extend finds it lost": func(t *testing.T, v *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.del(0, "k")
		v.del(1, "k")
		require.ErrorIs(t, l.Extend(t.Context(), 20*time.Second), lockpipe.ErrLost)
	},
	"Release while an extension hangs": func(t *testing.T, v *fakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.silence(0, 1, 2)
		extended := later(func() error { return l.Extend(t.Context(), 20*time.Second) })
		synctest.Wait()
		released := later(func() error { return l.Release(t.Context()) })
		synctest.Wait()
		v.speak(0, 1, 2)
		require.Error(t, <-extended)
		require.NoError(t, <-released)
	},
}

// The goal: however a lease ends, the queue forgets it: the call behind it is granted, and then the
// queue knows the key no more. Also with a call behind it that gives up at the same time, and with
// one that wants more than the lease has.
func TestQueue_NoKeyIsOwnedForEver(t *testing.T) {
	t.Parallel()
	behind := map[string]struct {
		keys []string
		opts []lockpipe.Option
		gone bool // its ctx ends at the same time
	}{
		"same key": {keys: []string{"k"}},
		"longer TTL": {
			keys: []string{"k"},
			opts: []lockpipe.Option{lockpipe.WithTTL(time.Minute)},
		},
		"with a fence":  {keys: []string{"k"}, opts: []lockpipe.Option{lockpipe.WithFencing()}},
		"more keys":     {keys: []string{"k", "m"}},
		"it is gone":    {keys: []string{"k"}, gone: true},
		"a set is gone": {keys: []string{"m", "k"}, gone: true},
	}
	for end, finish := range endsOfALease {
		for who, next := range behind {
			for _, isAsync := range []bool{false, true} {
				if isAsync && testing.Short() {
					continue
				}
				inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
					first := take(t, c, "k")
					got := queue(t, c, "k", lockpipe.WithTTL(5*time.Second))
					release(t, first)
					l := granted(t, got)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var waiter <-chan outcome
					if isAsync {
						waiter = async(ctx, t, c, next.keys, next.opts...)
					} else {
						waiter = queueFor(ctx, c, next.keys, next.opts...)
					}
					last := queue(t, c, "k")
					if next.gone {
						go cancel()
					}
					finish(t, v, c, l)
					o := <-waiter
					if o.err == nil {
						_ = o.lease.Release(t.Context())
					} else {
						require.ErrorIs(t, o.err, context.Canceled, "%s, %s", end, who)
					}
					o = <-last
					require.NoError(t, o.err, "%s, %s", end, who)
					release(t, o.lease)
					require.True(t, lockpipe.QueueIdle(c, "k", "m"), "%s, %s", end, who)
					v.soonOnlyCompanions(t)
				}, func(cfg *lockpipe.Config) { cfg.NodeTimeout = time.Second })
			}
		}
	}
}
