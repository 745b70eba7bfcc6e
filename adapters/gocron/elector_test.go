package gocronlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/lockpipe/lockpipe"
	gocronlock "github.com/lockpipe/lockpipe/adapters/gocron"
	"github.com/stretchr/testify/require"
)

// elector returns an elector that is stopped with the test.
func (f *fakeNodes) elector(client *lockpipe.Client, opts ...lockpipe.Option) *gocronlock.Elector {
	f.t.Helper()
	e, err := gocronlock.NewElector(client, "leader", opts...)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = e.Stop(context.Background()) })
	return e
}

// startElected starts a scheduler with a job that ticks each second.
func (f *fakeNodes) startElected(e *gocronlock.Elector, job func()) gocron.Scheduler {
	f.t.Helper()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(e))
	require.NoError(f.t, err)
	_, err = s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job),
		gocron.WithStartAt(gocron.WithStartDateTime(f.firstTick)))
	require.NoError(f.t, err)
	s.Start()
	return s
}

// The goal: one scheduler runs the job at each tick, always the same one. When its elector is
// stopped, another takes over before the next tick, and when that leader loses its lease, a third.
func TestElector_OneSchedulerRunsAllTicks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f *fakeNodes) {
		f.firstTick = time.Now().Add(10 * time.Second)
		count := ticks{runs: map[int]int{}}
		var electors []*gocronlock.Elector
		var ran [2]int // of each scheduler; the ticks are one after another
		for i := range ran {
			electors = append(electors, f.elector(f.newClient()))
			time.Sleep(time.Second) // the first one leads
			s := f.startElected(electors[i], func() {
				count.mu.Lock()
				ran[i]++
				count.mu.Unlock()
				count.add(int(time.Since(f.firstTick) / time.Second))
			})
			t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
		}
		require.NoError(t, electors[0].IsLeader(t.Context()))
		require.ErrorIs(t, electors[1].IsLeader(t.Context()), gocronlock.ErrNotLeader)
		time.Sleep(time.Until(f.firstTick) + 5500*time.Millisecond)
		require.NoError(t, electors[0].Stop(t.Context()))
		require.ErrorIs(t, electors[0].IsLeader(t.Context()), gocronlock.ErrNotLeader)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		count.requireOnce(t, 10)
		count.mu.Lock()
		require.Equal(t, [2]int{6, 4}, ran)
		count.mu.Unlock()

		for _, node := range f.nodes {
			node.Set("leader", "another's")
		}
		time.Sleep(2 * time.Second) // the TTL
		require.ErrorIs(t, electors[1].IsLeader(t.Context()), gocronlock.ErrNotLeader)
		for _, node := range f.nodes {
			node.Delete("leader")
		}
		time.Sleep(time.Second)
		require.NoError(t, electors[1].IsLeader(t.Context()), "it campaigns again")
	})
}

// The goal: Stop releases the key and ends the goroutine, also twice, and before the first term.
func TestElector_StopReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f *fakeNodes) {
		client := f.newClient()
		leader := f.elector(client)
		follower := f.elector(f.newClient())
		time.Sleep(time.Second)
		require.Equal(t, 3, f.nodesWith("leader"))
		require.NoError(t, follower.Stop(t.Context()))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := leader.Stop(over); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, leader.Stop(t.Context()))
		require.NoError(t, leader.Stop(t.Context()))
		time.Sleep(100 * time.Millisecond) // the slowest node has the release
		require.Zero(t, f.nodesWith("leader"))
	})
}

// The goal: a campaign that can't go on says why, at each question.
func TestElector_SaysWhyItCannotLead(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f *fakeNodes) {
		_, err := gocronlock.NewElector(nil, "leader")
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		invalid := f.elector(f.newClient(), lockpipe.WithMaxAttempts(3))
		closed := f.newClient()
		ended := f.elector(closed)
		time.Sleep(time.Second)
		require.NoError(t, closed.Close(t.Context()))
		synctest.Wait()
		for e, want := range map[*gocronlock.Elector]error{
			invalid: lockpipe.ErrInvalid, ended: lockpipe.ErrClosed,
		} {
			require.ErrorIs(t, e.IsLeader(t.Context()), want)
			require.ErrorIs(t, e.Stop(t.Context()), want)
		}
	})
}

func ExampleNewElector() {
	_ = func(client *lockpipe.Client) error {
		elector, err := gocronlock.NewElector(client, "leader:reports")
		if err != nil {
			return err
		}
		s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
		if err != nil {
			return err
		}
		s.Start()
		if err := s.Shutdown(); err != nil {
			return err
		}
		return elector.Stop(context.Background()) // and client.Close
	}
}
