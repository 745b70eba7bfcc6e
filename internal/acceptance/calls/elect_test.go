package calls

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// term is one run of a candidate's function.
type term struct {
	ctx    context.Context //nolint:containedctx // that of the function
	lease  *lockpipe.Lease
	began  time.Time
	result chan error // what the function is to return
}

// candidate lets c campaign for key "k". It returns the terms, as they begin, and what Elect
// returns.
func candidate(ctx context.Context, c *lockpipe.Client, opts ...lockpipe.Option) (<-chan term,
	<-chan error,
) {
	terms := make(chan term)
	return terms, kit.Later(func() error {
		return c.Elect(ctx, "k", func(ctx context.Context, l *lockpipe.Lease) error {
			now := term{ctx, l, time.Now(), make(chan error)}
			terms <- now
			return <-now.result
		}, opts...)
	})
}

// The goal: the leader leads for as long as its function runs, under a context with the values and
// the deadline of the call. Elect releases, and returns what the function returned.
func TestElect_LeadsUntilTheFunctionReturns(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, want := range []error{nil, io.ErrUnexpectedEOF} {
			ctx := context.WithValue(t.Context(), kit.BoundKey{}, 42)
			ctx, cancel := context.WithTimeout(ctx, 30*24*time.Hour)
			defer cancel()
			terms, ended := candidate(ctx, c, lockpipe.WithTTL(time.Second))
			led := <-terms
			require.Equal(t, 42, led.ctx.Value(kit.BoundKey{}))
			deadline, _ := led.ctx.Deadline()
			require.Equal(t, led.began.Add(30*24*time.Hour), deadline)
			time.Sleep(5 * time.Second)
			kit.Lasting(t, led.lease)
			require.NoError(t, led.ctx.Err())
			led.result <- want
			require.Equal(t, want, <-ended)
			kit.EndedBy(led.ctx, t, context.Canceled)
			kit.Over(t, led.lease, lockpipe.ErrReleased)
			v.NothingLeft(t)
		}
	})
}

// The goal: after a loss the function is told why, and what it returns then does not end Elect. It
// campaigns again, but not while the function still runs. The next term has a higher fence.
func TestElect_CampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		terms, ended := candidate(t.Context(), c, lockpipe.WithFencing(),
			lockpipe.WithTTL(time.Second))
		led := <-terms
		for _, result := range []error{nil, io.ErrUnexpectedEOF, lockpipe.ErrClosed} {
			free := rob(t, v, "k")
			<-led.ctx.Done()
			kit.EndedBy(led.ctx, t, lockpipe.ErrLost)
			free()
			time.Sleep(2 * time.Second) // the function does not heed its context
			v.OnlyCompanions(t)
			free = rob(t, v, "k")
			led.result <- result
			time.Sleep(200 * time.Millisecond)
			free()
			next := <-terms
			kit.Lasting(t, next.lease)
			require.Greater(t, next.lease.Fence(), led.lease.Fence())
			led = next
		}
		led.result <- nil
		require.NoError(t, <-ended)
		v.OnlyCompanions(t)
	})
}

// The goal: a limit that the caller gives ends the term with ErrExpired, and the next one has the
// same limit.
func TestElect_WithAutoExtendLimitsATerm(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		terms, ended := candidate(ctx, c, lockpipe.WithAutoExtend(10*time.Second))
		for range 3 {
			led := <-terms
			<-led.ctx.Done()
			require.Equal(t, 10*time.Second, time.Since(led.began))
			kit.EndedBy(led.ctx, t, lockpipe.ErrExpired)
			led.result <- nil
		}
		led := <-terms
		cancel()
		led.result <- nil
		require.NoError(t, <-ended)
	})
}

// The goal: the end of ctx ends a campaign, with the reason why it was not elected. It also ends a
// term: then the result of the function counts. After a loss nothing follows.
func TestElect_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		free := rob(t, v, "k")
		_, ended := candidate(ctx, c)
		time.Sleep(time.Second)
		cancel()
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		free()

		ctx, cancel = context.WithCancel(t.Context())
		terms, ended := candidate(ctx, c)
		led := <-terms
		cancel()
		kit.EndedBy(led.ctx, t, context.Canceled)
		led.result <- io.ErrUnexpectedEOF
		require.Equal(t, io.ErrUnexpectedEOF, <-ended)

		ctx, cancel = context.WithCancel(t.Context())
		terms, ended = candidate(ctx, c)
		led = <-terms
		defer rob(t, v, "k")()
		<-led.ctx.Done()
		cancel()
		led.result <- nil
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// The goal: a panic of the function passes through Elect, which releases before.
func TestElect_ReleasesAfterAPanic(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		require.PanicsWithValue(t, "oh", func() {
			_ = c.Elect(t.Context(), "k", func(context.Context, *lockpipe.Lease) error {
				panic("oh")
			})
		})
		v.NothingLeft(t)
	})
}

// The goal: a function that ends its lease itself ends its lead, and Elect with it.
func TestElect_TheFunctionMayEndTheLease(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client) {
		for want, end := range map[error]func(*lockpipe.Lease) error{
			lockpipe.ErrReleased: func(l *lockpipe.Lease) error { return l.Release(t.Context()) },
			lockpipe.ErrKept: func(l *lockpipe.Lease) error {
				return l.Keep(t.Context(), time.Second)
			},
		} {
			terms, ended := candidate(t.Context(), c, lockpipe.WithTTL(time.Second))
			led := <-terms
			require.NoError(t, end(led.lease))
			kit.EndedBy(led.ctx, t, want)
			led.result <- io.ErrUnexpectedEOF
			require.Equal(t, io.ErrUnexpectedEOF, <-ended)
		}
	})
}

// The goal: what no campaign can mend ends Elect, and nothing is sent for arguments that make no
// sense.
func TestElect_ReturnsWhatNoCampaignCanMend(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		before := v.Sent()
		never := func(context.Context, *lockpipe.Lease) error { panic("it leads") }
		var none context.Context
		for says, err := range map[string]error{
			"WithMaxAttempts(3)": c.Elect(t.Context(), "k", never, lockpipe.WithMaxAttempts(3)),
			"WithTTL(0s)":        c.Elect(t.Context(), "k", never, lockpipe.WithTTL(0)),
			"WithAutoExtend(0s)": c.Elect(t.Context(), "k", never, lockpipe.WithAutoExtend(0)),
			"fn is nil":          c.Elect(t.Context(), "k", nil),
			"ctx is nil":         c.Elect(none, "k", never),
			"key 1 of 1 is":      c.Elect(t.Context(), "", never),
		} {
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, says)
		}
		require.Equal(t, before, v.Sent(), "something was sent")

		leading, waiting := v.Client(t), v.Client(t)
		terms, ended := candidate(t.Context(), leading, lockpipe.WithMaxAttempts(0))
		led := <-terms
		_, waited := candidate(t.Context(), waiting)
		time.Sleep(time.Second)
		require.NoError(t, waiting.Close(t.Context()))
		require.ErrorIs(t, <-waited, lockpipe.ErrClosed)
		closed := kit.Later(func() error { return leading.Close(t.Context()) })
		synctest.Wait()
		kit.EndedBy(led.ctx, t, lockpipe.ErrClosed)
		led.result <- nil
		require.ErrorIs(t, <-ended, lockpipe.ErrClosed)
		require.NoError(t, <-closed)
	})
}

// refused is how many waiting calls were refused because too many are pending.
func refused(c *lockpipe.Client) uint64 {
	all := c.Outcomes()
	return all[slices.IndexFunc(all, func(o lockpipe.OutcomeCount) bool {
		return o.What == "call" && o.Kind == "wait" && o.Outcome == "overloaded"
	})].Count
}

// The goal: neither missing nodes nor an overload end a campaign. It tries again now and then, not
// all the time, and leads when they are over.
func TestElect_OutlastsTransientFailures(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i := range v.Nodes {
			v.Fail(i, kit.OutOfMemory)
		}
		terms, ended := candidate(t.Context(), c)
		time.Sleep(2 * time.Second)
		healed := time.Now()
		v.Heal(0, 1, 2)
		led := <-terms
		require.Less(t, time.Since(healed), time.Second)
		led.result <- nil
		require.NoError(t, <-ended)

		recovered := kit.Overload(c)
		terms, ended = candidate(t.Context(), c)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10_000/35, refused(c), 60) // each 10 to 60 ms
		recovered()
		led = <-terms
		led.result <- nil
		require.NoError(t, <-ended)

		defer kit.Overload(c)()
		before := refused(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ended = candidate(ctx, c, lockpipe.WithRetryDelay(0, 0))
		err := <-ended
		require.ErrorIs(t, err, lockpipe.ErrOverloaded)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 1000, refused(c)-before, 1) // each millisecond

		began := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ended = candidate(ctx, c, lockpipe.WithRetryDelay(time.Hour, time.Hour))
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// The goal: when a leader dies, a follower leads soon after the TTL. A leader that is only cut off
// knows its loss before that. After a clean end the next leader need not wait for the TTL.
func TestElect_AFollowerLeadsInTime(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for range 3 { // the moment between two extensions is random
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, follower *lockpipe.Client) {
			wire := &kit.Cable{V: v}
			leader := v.Client(t, func(cfg *lockpipe.Config) { cfg.Dial = wire.Dial })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opts := []lockpipe.Option{lockpipe.WithTTL(ttl), lockpipe.WithFencing()}
			terms, cutOff := candidate(ctx, leader, opts...)
			first := <-terms
			terms, ended := candidate(t.Context(), follower, opts...)
			time.Sleep(ttl)
			lost := kit.Later(func() time.Time {
				<-first.ctx.Done()
				return time.Now()
			})
			unplugged := time.Now()
			wire.Unplug(t, leader)
			second := <-terms
			require.True(t, (<-lost).Before(second.began), "two lead")
			require.ErrorIs(t, context.Cause(first.ctx), lockpipe.ErrLost)
			require.LessOrEqual(t, second.began.Sub(unplugged), ttl+100*time.Millisecond)
			require.Greater(t, second.lease.Fence(), first.lease.Fence())
			cancel()
			first.result <- nil
			require.ErrorIs(t, <-cutOff, context.Canceled)

			terms, last := candidate(t.Context(), v.Client(t), opts...)
			time.Sleep(ttl / 2)
			second.result <- nil
			clean := time.Now()
			require.NoError(t, <-ended)
			third := <-terms
			require.LessOrEqual(t, third.began.Sub(clean), 100*time.Millisecond) // without pushes
			third.result <- nil
			require.NoError(t, <-last)
			synctest.Wait()
			v.OnlyCompanions(t)
		})
	}
}

// rob gives the key to another holder, until the returned function is called.
func rob(t *testing.T, v *kit.FakeNodes, key string) (free func()) {
	t.Helper()
	for i := range v.Nodes {
		v.Set(i, key, "another")
	}
	return func() {
		for i := range v.Nodes {
			v.Del(i, key)
		}
	}
}
