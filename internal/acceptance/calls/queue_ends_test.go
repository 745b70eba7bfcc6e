package calls

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// endsOfALease are the ends of a lease that waited for its key, and so has it in the queue of the
// process.
var endsOfALease = map[string]func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client,
	l *lockpipe.Lease){
	"Release": func(t *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client, l *lockpipe.Lease) {
		require.NoError(t, l.Release(t.Context()))
	},
	"Release twice at once": func(t *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		other := kit.Later(func() error { return l.Release(t.Context()) })
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-other)
	},
	"ReleaseAll": func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client, l *lockpipe.Lease) {
		require.NoError(t, c.ReleaseAll(t.Context(), l, l, nil))
	},
	"Release while the nodes are silent": func(t *testing.T, v *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.Silence(0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.Release(ctx))
		v.Speak(0, 1, 2)
	},
	"Release with a ctx that is over": func(t *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = l.Release(ctx)
	},
	"expiry": func(_ *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client, l *lockpipe.Lease) {
		<-l.Done()
	},
	"expiry after a shorter extension": func(t *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		require.NoError(t, l.Extend(t.Context(), 100*time.Millisecond)) // needs a cleanup
		<-l.Done()
	},
	"expiry seen by Err first": func(t *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		time.Sleep(time.Until(l.Until()))
		require.Error(t, l.Err())
		require.Error(t, l.Release(t.Context()))
	},
	"expiry while an extension hangs": func(t *testing.T, v *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.Silence(0, 1, 2)
		require.Error(t, l.Extend(t.Context(), 20*time.Second))
		v.Speak(0, 1, 2)
	},
	"Extend finds it lost": func(t *testing.T, v *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.Del(0, "k")
		v.Del(1, "k")
		require.ErrorIs(t, l.Extend(t.Context(), 20*time.Second), lockpipe.ErrLost)
	},
	"Release while an extension hangs": func(t *testing.T, v *kit.FakeNodes, _ *lockpipe.Client,
		l *lockpipe.Lease,
	) {
		v.Silence(0, 1, 2)
		extended := kit.Later(func() error { return l.Extend(t.Context(), 20*time.Second) })
		synctest.Wait()
		released := kit.Later(func() error { return l.Release(t.Context()) })
		synctest.Wait()
		v.Speak(0, 1, 2)
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
				kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
					first := kit.Take(t, c, "k")
					got := kit.Queue(t, c, "k", lockpipe.WithTTL(5*time.Second))
					kit.Release(t, first)
					l := kit.Granted(t, got)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var waiter <-chan kit.Outcome
					if isAsync {
						waiter = kit.Async(ctx, t, c, next.keys, next.opts...)
					} else {
						waiter = kit.QueueFor(ctx, c, next.keys, next.opts...)
					}
					last := kit.Queue(t, c, "k")
					if next.gone {
						go cancel()
					}
					finish(t, v, c, l)
					o := <-waiter
					if o.Err == nil {
						_ = o.Lease.Release(t.Context())
					} else {
						require.ErrorIs(t, o.Err, context.Canceled, "%s, %s", end, who)
					}
					o = <-last
					require.NoError(t, o.Err, "%s, %s", end, who)
					kit.Release(t, o.Lease)
					require.True(t, kit.QueueIdle(c, "k", "m"), "%s, %s", end, who)
					v.SoonOnlyCompanions(t)
				}, func(cfg *lockpipe.Config) { cfg.NodeTimeout = time.Second })
			}
		}
	}
}
