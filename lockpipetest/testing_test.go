package lockpipetest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a testing.TB that records the calls of its methods.
type recorder struct {
	testing.TB // nil: a method that is not overridden panics
	calls      []string
	cleanups   []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(f string, args ...any) {
	r.calls = append(r.calls, "log: "+fmt.Sprintf(f, args...))
}

func (r *recorder) Error(args ...any) {
	r.calls = append(r.calls, "error: "+fmt.Sprint(args...))
}
func (r *recorder) Fatal(args ...any)         { r.stop("fatal: " + fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.stop("fatal: " + fmt.Sprintf(f, a...)) }
func (r *recorder) Skipf(f string, a ...any)  { r.stop("skip: " + fmt.Sprintf(f, a...)) }

func (r *recorder) stop(what string) {
	r.calls = append(r.calls, what)
	runtime.Goexit()
}

// run runs a test function to its end, as the testing package does.
func (r *recorder) run(test func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	for _, f := range r.cleanups {
		f()
	}
}

// withoutRedis hides redis-server, and lets StartT log again.
func withoutRedis(t *testing.T, require string) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	t.Setenv(programVar, "")
	t.Setenv(requireVar, require)
	inProcessLogged = sync.Once{}
	t.Cleanup(func() { inProcessLogged = sync.Once{} })
}

func TestStartT_WithoutRedisSaysSoOnce(t *testing.T) {
	for _, unset := range []string{"", "0"} {
		withoutRedis(t, unset)
		var r recorder
		r.run(func(tb testing.TB) {
			for range 2 {
				nodes := StartT(tb, 2)
				require.Equal(t, "in-process", nodes.Backend())
				require.Equal(t, "PONG", do(t, nodes, 1, "PING"))
			}
		})
		require.Len(t, r.calls, 1)
		require.Contains(t, r.calls[0], "log: === NO REDIS-SERVER")
	}
}

func TestStartT_FailsWithoutRequiredRedis(t *testing.T) {
	withoutRedis(t, "1")
	for _, start := range []func(testing.TB){
		func(tb testing.TB) { StartT(tb, 1) },
		func(tb testing.TB) { StartRealT(tb, 1) },
		func(tb testing.TB) { StartReplicatedT(tb) },
	} {
		var r recorder
		r.run(start)
		require.Len(t, r.calls, 1)
		require.Contains(t, r.calls[0], "fatal: lockpipetest: LOCKPIPE_REQUIRE_REDIS is set")
	}
}

// A name that is wrong must not let a user believe that the named program was tested.
func TestStartT_FailsIfTheNamedProgramIsMissing(t *testing.T) {
	for _, name := range []string{"no-such-server", "/no/such/server"} {
		t.Setenv(programVar, name)
		for _, start := range []func(testing.TB){
			func(tb testing.TB) { StartT(tb, 1) },
			func(tb testing.TB) { StartRealT(tb, 1) },
			func(tb testing.TB) { StartReplicatedT(tb) },
		} {
			var r recorder
			r.run(start)
			require.Len(t, r.calls, 1)
			require.Contains(t, r.calls[0], "fatal: lockpipetest: the environment variable "+
				programVar)
			require.Contains(t, r.calls[0], name)
		}
		_, err := Start(1)
		require.ErrorContains(t, err, programVar)
	}
}

func TestStartRealT_SkipsLoudlyWithoutRedis(t *testing.T) {
	withoutRedis(t, "")
	for _, start := range []func(testing.TB){
		func(tb testing.TB) { StartRealT(tb, 1) },
		func(tb testing.TB) { StartReplicatedT(tb) },
	} {
		var r recorder
		r.run(start)
		require.Len(t, r.calls, 1)
		require.Contains(t, r.calls[0], "skip: === SKIPPED")
	}
}

func TestStartT_ClosesAtTheEndOfTheTest(t *testing.T) {
	var nodes *Nodes
	var r recorder
	r.run(func(tb testing.TB) {
		nodes = startFor(tb, 1, StartInProcess)
		require.NoError(t, nodes.Freeze(0))
	})
	require.Empty(t, r.calls)
	_, err := nodes.Do(0, "PING")
	require.ErrorIs(t, err, errClosed)
}

func TestStartT_FailsForNoNodes(t *testing.T) {
	var r recorder
	r.run(func(tb testing.TB) { startFor(tb, 0, StartInProcess) })
	require.Len(t, r.calls, 1)
	require.Contains(t, r.calls[0], "fatal:")
}
