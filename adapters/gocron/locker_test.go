package gocronlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/lockpipe/lockpipe"
	gocronlock "github.com/lockpipe/lockpipe/adapters/gocron"
	"github.com/stretchr/testify/require"
)

// ticks counts the runs of a job at each tick, which means in each interval.
type ticks struct {
	mu   sync.Mutex // guards runs
	runs map[int]int
}

func (n *ticks) add(tick int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs[tick]++
}

// requireOnce fails unless there was one run at each of the first ticks.
func (n *ticks) requireOnce(t *testing.T, ticks int) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	once := map[int]int{}
	for tick := range ticks {
		once[tick] = 1
	}
	require.Equal(t, once, n.runs)
}

// The goal: of all instances one runs the job at each tick, for short and long jobs, and whether or
// not the instances tick at the same moment.
func TestLock_JobRunsOncePerTick(t *testing.T) {
	for _, c := range []struct {
		name      string
		cfg       gocronlock.Config
		behind    []time.Duration // of each instance
		interval  time.Duration
		takes     time.Duration
		intervals int
	}{
		{
			name:   "all at the same moment, which splits the votes",
			behind: make([]time.Duration, 5), interval: time.Second, takes: 0, intervals: 10,
		},
		{
			name:     "a short job and clocks that differ",
			behind:   []time.Duration{0, 100 * time.Millisecond, 299 * time.Millisecond},
			interval: time.Second, takes: time.Millisecond, intervals: 5,
		},
		{
			name:     "a job that outlasts the TTL",
			behind:   []time.Duration{0, 3 * time.Second, 6 * time.Second},
			interval: 10 * time.Second, takes: 7 * time.Second, intervals: 2,
		},
		{
			name:     "instances with any start time, and a lock for most of the interval",
			cfg:      gocronlock.Config{MinHold: 8 * time.Second},
			behind:   []time.Duration{0, 2 * time.Second, 5 * time.Second},
			interval: 10 * time.Second, takes: time.Second, intervals: 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, f *fakeNodes) {
				count := ticks{runs: map[int]int{}}
				clients := make([]*lockpipe.Client, len(c.behind))
				for i := range clients {
					clients[i] = f.newClient()
				}
				f.firstTick = time.Now().Add(time.Second)
				all := make([]instance, len(c.behind))
				for i := range all {
					all[i].delay = c.behind[i]
					f.startInstance(&all[i], clients[i], c.cfg, c.interval, func() {
						count.add(int(time.Since(f.firstTick) / c.interval))
						time.Sleep(c.takes)
					})
				}
				time.Sleep(time.Until(f.firstTick) +
					time.Duration(c.intervals)*c.interval - time.Millisecond)
				for i := range all {
					require.NoError(t, all[i].Shutdown())
				}
				count.requireOnce(t, c.intervals)
				for i := range all {
					for _, err := range all[i].lockErrs {
						require.ErrorIs(t, err, lockpipe.ErrHeld)
					}
				}
				time.Sleep(c.interval) // what is kept for MinHold
				require.Zero(t, f.nodesWith("report"))
			})
		})
	}
}

// The goal: a lock is kept for MinHold after it was granted. After a longer job it is released at
// once.
func TestUnlock_KeepsTheLockForMinHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f *fakeNodes) {
		locker, err := gocronlock.New(f.newClient(), gocronlock.Config{MinHold: 10 * time.Second})
		require.NoError(t, err)
		lock, err := locker.Lock(t.Context(), "short")
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()), "a second time")
		time.Sleep(6900 * time.Millisecond)
		require.Equal(t, 3, f.nodesWith("short"))
		time.Sleep(200 * time.Millisecond)
		require.Zero(t, f.nodesWith("short"))

		lock, err = locker.Lock(t.Context(), "long")
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		require.Equal(t, 3, f.nodesWith("long"))
		require.NoError(t, lock.Unlock(t.Context()))
		time.Sleep(100 * time.Millisecond)
		require.Zero(t, f.nodesWith("long"))
	})
}

// The goal: Unlock returns an error after a run that took longer than MaxHold or lost its lock.
// After the client was closed nothing is left.
func TestUnlock_ReportsALostLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f *fakeNodes) {
		client := f.newClient()
		locker, err := gocronlock.New(client, gocronlock.Config{
			MinHold: 5 * time.Second,
			MaxHold: 10 * time.Second,
		})
		require.NoError(t, err)
		long, err := locker.Lock(t.Context(), "long")
		require.NoError(t, err)
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, long.Unlock(t.Context()), lockpipe.ErrExpired)

		lost, err := locker.Lock(t.Context(), "gone")
		require.NoError(t, err)
		for _, node := range f.nodes {
			node.Set("gone", "another's")
		}
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, lost.Unlock(t.Context()), lockpipe.ErrLost)

		kept, err := locker.Lock(t.Context(), "kept")
		require.NoError(t, err)
		require.NoError(t, kept.Unlock(t.Context()))
		require.NoError(t, client.Close(t.Context()))
		require.Zero(t, f.nodesWith("kept"))
		time.Sleep(time.Second) // its timer finds nothing to do
		_, err = locker.Lock(t.Context(), "kept")
		require.ErrorIs(t, err, lockpipe.ErrClosed)
	})
}

// The goal: without a quorum no job runs, and the error says why. A short failure does not cost the
// tick.
func TestLock_FailsWithoutAQuorum(t *testing.T) {
	const minHold = 10 * time.Second // a quarter of it is longer than any delay between two tries
	inBubble(t, 3, func(t *testing.T, f *fakeNodes) {
		locker, err := gocronlock.New(f.newClient(), gocronlock.Config{MinHold: minHold})
		require.NoError(t, err)
		f.fail("OOM command not allowed")
		_, err = locker.Lock(t.Context(), "report")
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)

		time.AfterFunc(50*time.Millisecond, func() { f.fail("") })
		lock, err := locker.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		time.Sleep(minHold + time.Second)
		require.Zero(t, f.nodesWith("report"))
	})
}

// The goal: distant nodes have time to answer, however short MinHold is.
func TestLock_ShortMinHoldLeavesNodesTheirTime(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, f *fakeNodes) {
		f.maxDelay = 30 * time.Millisecond
		locker, err := gocronlock.New(f.newClient(),
			gocronlock.Config{MinHold: 20 * time.Millisecond})
		require.NoError(t, err)
		for range 10 {
			lock, err := locker.Lock(t.Context(), "report")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
			time.Sleep(time.Second)
		}
	})
}

// The goal: an invalid configuration is refused, with the name of the field.
func TestNew_ChecksConfig(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, f *fakeNodes) {
		client := f.newClient()
		for field, cfg := range map[string]gocronlock.Config{
			"Config.MinHold": {MinHold: time.Millisecond},
			"Config.MaxHold": {MinHold: 2 * time.Second, MaxHold: time.Second},
		} {
			_, err := gocronlock.New(client, cfg)
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, field)
		}
		_, err := gocronlock.New(nil, gocronlock.Config{})
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		locker, err := gocronlock.New(client, gocronlock.Config{MaxHold: 100 * time.Millisecond})
		require.NoError(t, err)
		lock, err := locker.Lock(t.Context(), "k")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		time.Sleep(time.Second)
	})
}

func ExampleNew() {
	_ = func() error {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: []string{
				"redis://10.0.0.1:6379", "redis://10.0.0.2:6379",
				"redis://10.0.0.3:6379",
			},
		})
		if err != nil {
			return err
		}
		locker, err := gocronlock.New(client, gocronlock.Config{})
		if err != nil {
			return err
		}
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			return err
		}
		_, err = s.NewJob(gocron.CronJob("0 3 * * *", false), gocron.NewTask(func() {}),
			gocron.WithName("nightly-report"))
		if err != nil {
			return err
		}
		s.Start()
		return s.Shutdown() // and client.Close
	}
}
