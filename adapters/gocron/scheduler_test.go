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

// testTimeout bounds each wait on a busy machine. Locks last longer than that, so that none is
// freed by its TTL.
const testTimeout = time.Minute

// realLocker returns a locker with a client of its own, whose timeout is long enough for a busy
// machine.
func realLocker(t *testing.T, nodes *lockpipetest.Nodes, cfg gocronlock.Config) *gocronlock.Locker {
	t.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: 2 * testTimeout, MaxTTL: 2 * testTimeout,
		NodeTimeout: testTimeout / 2,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		require.NoError(t, client.Close(ctx))
	})
	locker, err := gocronlock.New(client, cfg)
	require.NoError(t, err)
	return locker
}

// realScheduler returns a scheduler that runs, with one job that ticks at each RunNow only.
func realScheduler(t *testing.T, locker gocron.Locker, onLockErr func(error),
	job any,
) (gocron.Scheduler, gocron.Job) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker),
		gocron.WithStopTimeout(testTimeout))
	require.NoError(t, err)
	j, err := s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(job),
		gocron.WithName("report"),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string,
			err error,
		) {
			onLockErr(err)
		})))
	require.NoError(t, err)
	s.Start()
	return s, j
}

// waitUntilFree returns when no node has the key any more.
func waitUntilFree(t *testing.T, nodes *lockpipetest.Nodes, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i := range nodes.Len() {
			if value, err := nodes.Do(i, "GET", key); err != nil || value != nil {
				return false
			}
		}
		return true
	}, testTimeout, time.Millisecond)
}

// The goal: while one scheduler runs the job, the others are refused. When the run and MinHold are
// over, any of them gets the lock.
func TestScheduler_OthersAreRefusedDuringARun(t *testing.T) {
	t.Parallel()
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

// The goal: a scheduler that is shut down during a run, which cancels the context of the job,
// releases the lock when the run is over. The lock does not stay for its TTL.
func TestScheduler_ShutdownReleasesTheLock(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	running := make(chan struct{})
	s, j := realScheduler(t, realLocker(t, nodes,
		gocronlock.Config{MinHold: 20 * time.Millisecond}), func(error) {},
		func(ctx context.Context) {
			close(running)
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // so that Unlock itself releases it
		})
	require.NoError(t, j.RunNow())
	<-running
	require.NoError(t, s.Shutdown())
	waitUntilFree(t, nodes, "report")
}

// grantRecorder is a locker that records when it was asked and when it granted.
type grantRecorder struct {
	gocron.Locker
	runs *runs
}

// runs are all runs of a job, in the order in which they were granted.
type runs struct {
	mu  sync.Mutex // guards all
	all []run
}

type run struct{ asked, granted time.Time }

func (l grantRecorder) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	asked := time.Now()
	lock, err := l.Locker.Lock(ctx, key)
	if err == nil {
		l.runs.mu.Lock()
		defer l.runs.mu.Unlock()
		l.runs.all = append(l.runs.all, run{asked, time.Now()})
	}
	return lock, err
}

// The goal: on real nodes and clocks no lock is granted before MinHold has passed since the last
// grant, with any number of instances.
func TestScheduler_MinHoldBetweenGrants(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	const minHold, wanted = 150 * time.Millisecond, 6
	all := &runs{}
	ran := make(chan struct{}, 1000)
	for range 3 {
		locker := realLocker(t, nodes, gocronlock.Config{MinHold: minHold})
		s, err := gocron.NewScheduler(
			gocron.WithDistributedLocker(grantRecorder{locker, all}),
			gocron.WithStopTimeout(testTimeout))
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
