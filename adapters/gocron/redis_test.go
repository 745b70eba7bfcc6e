package gocronlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/lockpipe/lockpipe"
	gocronlock "github.com/lockpipe/lockpipe/adapters/gocron"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// patience bounds what a busy machine may take. Locks last longer than that, so that none is given
// back by its TTL.
const patience = time.Minute

// realLocker returns a locker with a client of its own, for which no answer of a master is late.
func realLocker(t *testing.T, nodes *lockpipetest.Nodes, cfg gocronlock.Config) *gocronlock.Locker {
	t.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: 2 * patience, MaxTTL: 2 * patience, NodeTimeout: patience / 2,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, client.Close(ctx))
	})
	locker, err := gocronlock.New(client, cfg)
	require.NoError(t, err)
	return locker
}

// realScheduler returns a scheduler that runs, with one job that ticks at each RunNow only.
func realScheduler(t *testing.T, locker gocron.Locker, refused func(error),
	job any,
) (gocron.Scheduler, gocron.Job) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker),
		gocron.WithStopTimeout(patience))
	require.NoError(t, err)
	j, err := s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(job),
		gocron.WithName("report"),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string,
			err error,
		) {
			refused(err)
		})))
	require.NoError(t, err)
	s.Start()
	return s, j
}

// waitUntilFree returns when no master has the key any more.
func waitUntilFree(t *testing.T, nodes *lockpipetest.Nodes, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i := range nodes.Len() {
			if value, err := nodes.Do(i, "GET", key); err != nil || value != nil {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
}

// The goal: while one scheduler runs the job the others are refused; when it is done, and MinHold
// is over, any of them gets it.
func TestWhileOneRunsTheOthersAreRefused(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 5)
	const schedulers = 3
	running, done, refused := make(chan int), make(chan struct{}), make(chan error)
	var jobs [schedulers]gocron.Job
	for i := range jobs {
		s, j := realScheduler(t, realLocker(t, nodes, gocronlock.Config{}),
			func(err error) { refused <- err }, func() {
				running <- i
				<-done
			})
		defer func() { require.NoError(t, s.Shutdown()) }()
		jobs[i] = j
	}
	for first := range jobs {
		require.NoError(t, jobs[first].RunNow())
		require.Equal(t, first, <-running)
		for other := range jobs {
			if other != first {
				require.NoError(t, jobs[other].RunNow())
				require.ErrorIs(t, <-refused, lockpipe.ErrHeld)
			}
		}
		done <- struct{}{}
		waitUntilFree(t, nodes, "report")
	}
}

// The goal: a scheduler that is shut down during a run, which cancels the context of the job, gives
// the lock back when the run is over. It does not stay for its TTL.
func TestShutdownGivesTheLockBack(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	running := make(chan struct{})
	s, j := realScheduler(t, realLocker(t, nodes,
		gocronlock.Config{MinHold: 20 * time.Millisecond}), func(error) {},
		func(ctx context.Context) {
			close(running)
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // so that Unlock itself gives it back
		})
	require.NoError(t, j.RunNow())
	<-running
	require.NoError(t, s.Shutdown())
	waitUntilFree(t, nodes, "report")
}

// times is a locker that notes when it was asked and when it granted.
type times struct {
	gocron.Locker
	runs *runs
}

// runs are all runs of a job, in the order in which they were granted.
type runs struct {
	mu  sync.Mutex // guards all
	all []run
}

type run struct{ asked, granted time.Time }

func (l times) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	asked := time.Now()
	lock, err := l.Locker.Lock(ctx, key)
	if err == nil {
		l.runs.mu.Lock()
		defer l.runs.mu.Unlock()
		l.runs.all = append(l.runs.all, run{asked, time.Now()})
	}
	return lock, err
}

// The goal: on real masters and clocks no lock is granted before MinHold has passed since the one
// before, at however many instances the job ticks.
func TestRealSchedulersKeepTheDistance(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 5)
	const minHold, wanted = 150 * time.Millisecond, 6
	all := &runs{}
	ran := make(chan struct{}, 1000)
	for range 3 {
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(times{realLocker(t, nodes,
			gocronlock.Config{MinHold: minHold}), all}),
			gocron.WithStopTimeout(patience))
		require.NoError(t, err)
		_, err = s.NewJob(gocron.DurationJob(200*time.Millisecond),
			gocron.NewTask(func() { ran <- struct{}{} }), gocron.WithName("report"))
		require.NoError(t, err)
		s.Start()
		defer func() { require.NoError(t, s.Shutdown()) }()
	}
	for range wanted {
		<-ran
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for i := 1; i < len(all.all); i++ {
		require.GreaterOrEqual(t, all.all[i].granted.Sub(all.all[i-1].asked), minHold)
	}
}
