package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
)

// fakeClient is a Client that takes some time for each call.
type fakeClient struct {
	stage  Stage
	ready  error
	closed atomic.Pointer[time.Time] // nil while it is open
}

func (c *fakeClient) Ready(context.Context) error { return c.ready }

func (c *fakeClient) Acquire(context.Context, string, ...lockpipe.Option) (*lockpipe.Lease, error) {
	time.Sleep(5 * time.Millisecond)
	if c.closed.Load() != nil {
		return nil, lockpipe.ErrClosed
	}
	return &lockpipe.Lease{}, nil
}

func (c *fakeClient) Close(context.Context) error {
	now := time.Now()
	c.closed.Store(&now)
	return nil
}

// fakeFleet is a Mover of fakeClients.
func fakeFleet(cfg MoveConfig, seats int) *Mover {
	var members []client
	for range seats {
		members = append(members, &fakeClient{})
	}
	return newMover(cfg, members, func(stage Stage) (client, error) {
		return &fakeClient{stage: stage}, nil
	})
}

// fakes are all Clients of a fakeFleet so far.
func fakes(m *Mover) (all []*fakeClient) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.all {
		all = append(all, c.(*fakeClient))
	}
	return all
}

// closedAt is when a Client was closed, after a start.
func closedAt(c *fakeClient, start time.Time) time.Duration {
	return c.closed.Load().Sub(start)
}

// Goal: the Clients are replaced at their times, and the next layout is used alone only MaxTTL
// after the end of the last Client of the old layout alone. A lease keeps its Client open until it
// ends.
func TestMover_WaitsForLeasesAndForMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeFleet(MoveConfig{Duration: time.Minute, MaxTTL: 15 * time.Second}, 2)
		start := time.Now()
		m.Start(t.Context())
		holder := m.NewCaller(1)
		_, err := holder.Acquire(t.Context(), "key")
		require.NoError(t, err)
		time.Sleep(18*time.Second - 5*time.Millisecond)
		synctest.Wait()
		require.Len(t, fakes(m), 4, "at 10 s and 15 s")
		require.Equal(t, 10*time.Second, closedAt(fakes(m)[0], start))
		require.Nil(t, fakes(m)[1].closed.Load(), "its caller has a lease")
		holder.Releases()
		holder.Released(nil, time.Time{})
		synctest.Wait()
		require.Equal(t, 18*time.Second, closedAt(fakes(m)[1], start))

		time.Sleep(42 * time.Second)
		require.NoError(t, m.Stop(t.Context()))
		require.Len(t, fakes(m), 6)
		r := m.Report()
		require.Equal(t, 4, r.Replaced)
		var from []float64
		for _, p := range r.Phases {
			from = append(from, p.FromS)
		}
		require.Equal(t, []float64{0, 10, 18, 33, 38}, from, "18 s and MaxTTL; then 10 s/2")
		require.InDelta(t, 60, r.Phases[NewAlone].UntilS, 1e-9)
		require.EqualValues(t, 2, r.Calls)
		require.EqualValues(t, 1, r.Phases[OldAlone].Locks)
		require.Equal(t, []Stage{Old, Old, Both, Both, New, New}, stagesOf(fakes(m)))
	})
}

func stagesOf(made []*fakeClient) (stages []Stage) {
	for _, c := range made {
		stages = append(stages, c.stage)
	}
	return stages
}

// Goal: callers change to the next Client between two calls, and no call fails because of it.
func TestMover_NoCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeFleet(MoveConfig{Duration: 6 * time.Second, MaxTTL: time.Second}, 3)
		m.Start(t.Context())
		end := time.Now().Add(6 * time.Second)
		for seat := range 3 {
			c := m.NewCaller(seat)
			m.moving.Go(func() {
				for time.Now().Before(end) {
					if _, err := c.Acquire(context.Background(), "key"); err == nil {
						c.Releases()
						c.Released(nil, time.Time{})
					}
				}
			})
		}
		time.Sleep(6 * time.Second)
		require.NoError(t, m.Stop(t.Context()))
		r := m.Report()
		require.Equal(t, 6, r.Replaced)
		require.Zero(t, r.Failed)
		require.EqualValues(t, 2*3*1200, r.Calls)
		require.InDelta(t, 1, r.BothOverOld, 0.01)
	})
}

// Goal: if a Client is not ready, or the run ends before, the error says that the fleet has not
// moved; an end of ctx is no error.
func TestMover_AFleetThatHasNotMovedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no node")
		m := newMover(MoveConfig{Duration: time.Minute}, []client{&fakeClient{}},
			func(Stage) (client, error) { return &fakeClient{ready: broken}, nil })
		m.Start(t.Context())
		time.Sleep(time.Minute)
		err := m.Stop(t.Context())
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "had not moved")
		require.Zero(t, m.Report().Replaced)

		ctx, cancel := context.WithCancel(t.Context())
		m = fakeFleet(MoveConfig{Duration: time.Minute}, 1)
		m.Start(ctx)
		cancel()
		require.NoError(t, m.Stop(ctx))
		require.Len(t, m.Report().Phases, 1)
	})
}

// Goal: a release that may be tried again counts once, with its whole time.
func TestCaller_AReleaseThatIsTriedAgainCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeFleet(MoveConfig{Duration: time.Minute}, 1)
		m.start = time.Now()
		c := m.NewCaller(0)
		_, err := c.Acquire(t.Context(), "key")
		require.NoError(t, err)
		until := time.Now().Add(time.Minute)
		for _, err := range []error{lockpipe.ErrNoQuorum, nil} {
			c.Releases()
			time.Sleep(20 * time.Millisecond)
			c.Released(err, until)
		}
		r := m.Report()
		require.EqualValues(t, 2, r.Calls)
		require.Zero(t, r.Failed)
		require.InEpsilon(t, 40, r.Phases[0].ReleaseMs.Max, 0.01)
		require.Zero(t, m.members[0].users)
	})
}
