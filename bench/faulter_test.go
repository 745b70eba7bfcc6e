package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// stricken is a brief run on five servers with faults.
func stricken(t *testing.T, s Scenario, faults string) Config {
	t.Helper()
	lockpipetest.RequireRedis(t)
	cfg := brief(s)
	cfg.Nodes, cfg.TTL, cfg.Duration, cfg.Faults, cfg.FaultSeed = "local:5", 5*time.Second,
		1500*time.Millisecond, faults, 7
	return cfg
}

// requireFaults requires that all faults happened when they should, and that nothing broke a rule
// for that.
func requireFaults(t *testing.T, r *Report, want ...string) {
	t.Helper()
	require.NotZero(t, r.Acquired)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
	require.LessOrEqual(t, r.GoroutinesAfter, r.GoroutinesBefore)
	require.Greater(t, r.GoroutinesMost, r.GoroutinesBefore)
	var got []string
	for _, f := range r.Faults {
		require.Empty(t, f.Error, f.Fault)
		got = append(got, f.Fault)
		one, err := parseFaults(strings.TrimSuffix(f.Fault, " at the end"), 5, time.Hour)
		if err != nil { // it has no time of its own
			continue
		}
		require.GreaterOrEqual(t, f.FromS, one.list[0].at.Seconds(), f.Fault)
		require.GreaterOrEqual(t, f.UntilS, one.list[0].end().Seconds(), f.Fault)
	}
	require.ElementsMatch(t, want, got)
}

// Each fault happens to its node while the load runs, in several scenarios, and neither two holders
// nor keys nor goroutines come of it.
func TestFaultsHappenUnderLoad(t *testing.T) {
	for _, s := range []Scenario{Single, Each, Hold} {
		t.Run(string(s), func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			list := []string{
				"freeze:1@100ms+700ms", "reset:2@200ms", "scriptflush:2@300ms",
				"busy:3@400ms+200ms", "oom:3@700ms+200ms",
				"readonly:1@900ms+300ms", "reset:1@1.25s",
			}
			r, err := Run(t.Context(), stricken(t, s, strings.Join(list, ",")))
			require.NoError(t, err)
			requireFaults(t, r, list...)
			require.Equal(t, strings.Join(list, ","), r.Config.Faults)
		})
	}
}

// Faults after which a node has forgotten locks happen as well. There is one caller, whose locks
// nobody else can be granted.
func TestNodesAreEmptiedUnderLoad(t *testing.T) {
	cfg := stricken(t, Single,
		"kill:1@200ms,restart:1@400ms,flush:2@600ms,restart:3@800ms,kill:4@1s")
	cfg.Callers = 1
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	requireFaults(t, r, "kill:1@200ms", "restart:1@400ms", "flush:2@600ms", "restart:3@800ms",
		"kill:4@1s", "restart:4 at the end")
}

// What the end of the run finds broken is mended, so that everything can be released, a majority
// too.
func TestFaultsAreMendedAtTheEnd(t *testing.T) {
	cfg := stricken(t, Single, "freeze:1@1s+1h,readonly:2@1s+1h,busy:3@1s+1h,oom:4@1s+1h")
	cfg.TTL = time.Minute // so that nothing ends by itself
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
	require.Len(t, r.Faults, 4)
	for _, f := range r.Faults {
		require.Empty(t, f.Error)
		require.Less(t, f.UntilS, 30.0)
	}
}

// A majority of faulty nodes is told by what was wrong on them.
func TestFailedCallsAreToldByKind(t *testing.T) {
	cfg := stricken(t, Single, "readonly:1@0s+1h,readonly:2@0s+1h,readonly:3@0s+1h")
	r, err := runUntilCounted(t, "lockpipe_calls_total", `"no_quorum"`, cfg)
	require.NoError(t, err)
	require.NotZero(t, r.NoQuorum)
	require.NotZero(t, r.ErrorsByKind["READONLY"])
	require.Zero(t, r.LeftoverKeys)
}

// After faults, keys that end by themselves within the longest TTL and a second are told, and are
// no leftovers; those that stay are.
func TestLeftoversOfFaultsAreThoseThatOutliveTheTTL(t *testing.T) {
	nodes := lockpipetest.StartT(t, 1)
	node := endpointOf(t, nodes.URLs()[0])
	set := func(args ...string) {
		_, err := nodes.Do(0, append([]string{"SET"}, args...)...)
		require.NoError(t, err)
	}
	cfg := Config{TTL: 500 * time.Millisecond}
	set("run:ending", "x", "PX", "500")
	set("run:staying", "x")
	r := &Report{Config: ReportConfig{Prefix: "run:"}, FaultReport: &FaultReport{}}
	require.NoError(t, r.search(t.Context(), cfg, []endpoint{node}))
	require.Equal(t, 1, r.LeftoverKeys)
	require.GreaterOrEqual(t, r.KeysAtClose, 1)
	set("run:ending", "x", "PX", "500")
	r = &Report{Config: ReportConfig{Prefix: "run:"}}
	require.NoError(t, r.search(t.Context(), Config{TTL: time.Hour}, []endpoint{node}))
	require.NotZero(t, r.LeftoverKeys, "without faults nobody waits")
}

// A fault that can't happen is told with its error, and does not keep those behind it from
// happening.
func TestAFaultThatFailsIsTold(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	require.NoError(t, nodes.Kill(0))
	f := &faulter{start: time.Now()}
	f.harm(t.Context(), &victim{nodes: nodes}, []fault{
		{freeze, 1, 0, time.Millisecond},
		{restart, 1, 0, 0},
	})
	require.Len(t, f.errs, 1)
	require.ErrorContains(t, f.errs[0], "fault freeze:1@0s+1ms: lockpipetest: freeze node 0: "+
		"node is not running")
	require.Len(t, f.done, 2)
	require.Contains(t, f.done[0].Error, "node is not running")
	require.Equal(t, "restart:1@0s", f.done[1].Fault)
	require.Empty(t, f.done[1].Error)
}

// A lease is not called dead because the connection of the one who looks was cut.
func TestASampleOutlivesAReset(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	address := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	p := newProber(endpoint{network: "tcp", address: address}, time.Minute)
	defer p.drop()
	for range 3 {
		a := p.answer(t.Context(), question{key: "k", token: "t"})
		require.True(t, a.answered, a.found)
		require.Equal(t, "no key", a.found)
		_, err := nodes.Do(0, "CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
	}
}

// The kind of an error is the same on every node and at every time.
func TestKindsOfErrors(t *testing.T) {
	for text, err := range map[string]error{
		"READONLY":           errors.New("READONLY You can't write against a read only replica."),
		"no answer within":   errors.New("no answer within 50ms"),
		"connection refused": fmt.Errorf("dial tcp 127.0.0.1:1: %w", syscall.ECONNREFUSED),
		"connection broken":  fmt.Errorf("read: %w", io.EOF),
		"no route":           &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route: 7")},
		"not sent":           errors.New("not sent: a later release or extension took its place"),
	} {
		require.Equal(t, text, kind(err))
	}
	var k kinds
	failure := &lockpipe.QuorumError{Nodes: []*lockpipe.NodeError{
		{Node: "a", Err: errors.New("BUSY a")},
		{Node: "b", Err: errors.New("BUSY b")},
		{Node: "c", Err: io.EOF},
	}}
	k.note(failure)
	k.note(fmt.Errorf("k: %w", failure))
	k.note(&lockpipe.QuorumError{})
	k.note(io.EOF)
	require.Equal(t, kinds{"BUSY": 2, "connection broken": 3, "split votes": 1}, k)
	for i := range 2 * maxKinds {
		k.note(errors.New(strings.Repeat("x", i+1)))
	}
	require.Len(t, k, maxKinds+1)
	require.NotZero(t, k["other"])
}
