package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The contenders of tests whose processes need no servers. What they do is in openFake.
const (
	letsAllIn    = "lets-all-in"
	letsOneIn    = "lets-one-in"
	failsToOpen  = "fails-to-open"
	neverGrants  = "never-grants"
	isKilled     = "is-killed"
	fakeDirValue = "PEERS_FAKE_DIR" // a directory that the processes of a fake share
)

// TestMain makes this program a process of hot-processes if it is to be one.
func TestMain(m *testing.M) {
	if os.Getenv(processVar) != "" {
		for _, name := range []string{
			letsAllIn, letsOneIn, failsToOpen, neverGrants, isKilled,
		} {
			registry = append(registry, entry{
				name: name, open: func(*nodes) (Contender, error) { return openFake(name) },
			})
		}
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crowdFake is a waiter made of one function.
type crowdFake struct {
	fake
	wait func(ctx context.Context) (func() error, error)
}

func (f crowdFake) Wait(ctx context.Context, _ string, _ time.Duration) (func() error, error) {
	return f.wait(ctx)
}

// openFake opens a contender of tests. It leaves a file with the id of the process.
func openFake(name string) (Contender, error) {
	dir := os.Getenv(fakeDirValue)
	f := crowdFake{fake: func(context.Context, []string) error { return nil }}
	opened, err := os.CreateTemp(dir, "opened-")
	if err != nil {
		return nil, err
	}
	if _, err := opened.WriteString(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		return nil, err
	}
	free := func() error { return nil }
	switch name {
	case failsToOpen:
		if all, err := filepath.Glob(filepath.Join(dir, "opened-*")); len(all) > 1 || err != nil {
			return nil, errors.New("the second one fails")
		}
		f.wait = func(context.Context) (func() error, error) { return free, nil }
	case letsAllIn:
		// Each process lets nobody in before the other one is asked too.
		met := filepath.Join(dir, "met-"+filepath.Base(opened.Name()))
		f.wait = func(ctx context.Context) (func() error, error) {
			if err := os.WriteFile(met, nil, 0o600); err != nil {
				return nil, err
			}
			for ctx.Err() == nil {
				all, err := filepath.Glob(filepath.Join(dir, "met-*"))
				if len(all) == 2 || err != nil {
					return free, err
				}
				time.Sleep(time.Millisecond)
			}
			return nil, ctx.Err()
		}
	case letsOneIn:
		key := filepath.Join(dir, "key")
		f.wait = func(ctx context.Context) (func() error, error) {
			for ctx.Err() == nil {
				if os.Link(opened.Name(), key) == nil {
					return func() error { return os.Remove(key) }, nil
				}
				time.Sleep(time.Millisecond)
			}
			return nil, ctx.Err()
		}
	case neverGrants:
		f.wait = func(ctx context.Context) (func() error, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	case isKilled:
		f.wait = func(context.Context) (func() error, error) {
			return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	return f, nil
}

// crowdOf measures a fake in two processes of one caller each, and returns the ids of the processes
// too.
func crowdOf(ctx context.Context, t *testing.T, name string, hold time.Duration) (r round,
	ids []int, err error,
) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(fakeDirValue, dir)
	s := scenario{callers: 1, keys: 1, hot: &hotLoad{processes: 2, hold: hold}}
	c := contestant{label: name, nodes: &nodes{}, tag: "xx"}
	r, err = measureProcesses(ctx, s, c, settings{window: 200 * time.Millisecond})
	files, globErr := filepath.Glob(filepath.Join(dir, "opened-*"))
	if globErr != nil {
		t.Fatal(globErr)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line, whole := strings.CutSuffix(string(text), "\n")
		if id, err := strconv.Atoi(line); err == nil && whole {
			ids = append(ids, id)
		}
	}
	return r, ids, err
}

// expectGone wants no process of these ids to be there, not even one that nobody has waited for.
func expectGone(t *testing.T, ids []int) {
	t.Helper()
	for _, id := range ids {
		if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", id, err)
		}
	}
}

// The goal: two holders in two processes are found, although each process has one caller only. A
// lock that lets one in at a time is not accused.
func TestProcesses_FindTwoHolders(t *testing.T) {
	for name, want := range map[string]bool{letsAllIn: true, letsOneIn: false} {
		hold := time.Millisecond
		if want {
			hold = 300 * time.Millisecond // the other one comes while the first is in
		}
		r, ids, err := crowdOf(t.Context(), t, name, hold)
		if err != nil {
			t.Fatal(err)
		}
		if found := r.AnError == errTwoHolders.Error(); found != want || found != (r.Errors > 0) {
			t.Errorf("%s: two holders found: %v: %+v", name, found, r)
		}
		if len(ids) != 2 {
			t.Errorf("%s: want 2 processes, not %v", name, ids)
		}
		expectGone(t, ids)
	}
}

// The goal: if one process fails, at its start or later, the error says which and why. The others
// end at once and none is left.
func TestProcesses_OneThatFailsEndsAll(t *testing.T) {
	for name, want := range map[string]string{
		failsToOpen:  "process 2 of 2: exit status 1: peers: open fails-to-open: the second one fails",
		isKilled:     "of 2: signal: killed",
		"not-there":  `process 1 of 2: exit status 1: peers: no contender "not-there"`,
		"lockpipe,x": `process 1 of 2: exit status 1: peers: no contender "x"`,
	} {
		_, ids, err := crowdOf(t.Context(), t, name, 0)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		expectGone(t, ids)
	}
}

// The goal: an interrupt ends all processes, also those that wait for a key, and none is left.
func TestProcesses_AnInterruptEndsAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	_, ids, err := crowdOf(ctx, t, neverGrants, 0)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	expectGone(t, ids)
}

// The goal: a process that is told nothing more, because its parent is gone, does not begin. One
// that has begun ends without a share.
func TestProcesses_EndWithTheirParent(t *testing.T) {
	registry = append(registry, entry{name: neverGrants, open: func(*nodes) (Contender, error) {
		return openFake(neverGrants)
	}})
	defer func() { registry = registry[:len(registry)-1] }()
	t.Setenv(fakeDirValue, t.TempDir())
	dialogue := `{"Contender": "` + neverGrants + `", "Callers": 2, "Window": 3600000000000}`
	for _, in := range []string{"", dialogue, dialogue + `"2026-01-02T15:04:05Z"`} {
		var connected, out bytes.Buffer
		err := processMain(t.Context(), strings.NewReader(in), &connected, &out)
		if err == nil || out.Len() > 0 || (connected.Len() == 1) != (in != "") {
			t.Errorf("%q: %v, %q, %q", in, err, &connected, &out)
		}
	}
}

// The goal: the shares become one round. A process counts as one caller, and the time of each
// process begins with its window.
func TestProcesses_SharesAddUp(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	k := crowd{shares: []share{
		{
			Window: ms(100), CPU: ms(3), Mallocs: 10,
			Calls: [][2]time.Duration{
				{ms(-5), ms(6)}, {ms(10), ms(10)}, {ms(30), ms(20)}, {ms(98), ms(5)},
			},
		},
		{
			Window: ms(101), CPU: ms(5), Mallocs: 20, Errors: 2, AnError: "no",
			Calls: [][2]time.Duration{{ms(0), ms(50)}},
		},
		{Window: ms(102), Calls: [][2]time.Duration{{ms(-10), ms(900)}}}, // it got no turn
	}}
	r := k.total(scenario{keys: 1, hot: &hotLoad{processes: 3}}, contestant{})
	if r.Locks != 4 || r.Window != ms(100) || r.CPU != ms(8) || r.Mallocs != 30 || r.Errors != 2 ||
		r.AnError != "no" || r.MinShare != 0 || r.Jain != 16.0/(3*(9+1)) || r.P50 != ms(10) ||
		r.P99 != ms(50) || r.WorstP99 != ms(900) || r.Max != ms(900) {
		t.Errorf("%+v", r)
	}
	k.shares[2] = share{Window: ms(102), Errors: 1, Failed: ms(60_000)}
	if r := k.total(scenario{keys: 1, hot: &hotLoad{processes: 3}}, contestant{}); r.Errors != 3 ||
		r.WorstP99 != ms(60_000) || r.Max != ms(60_000) {
		t.Errorf("a wait that failed: %+v", r)
	}
}

// The goal: Jain's index is 1 if all get the same and 1/n if one gets all.
func TestJain(t *testing.T) {
	for _, c := range []struct {
		want   float64
		shares []float64
	}{
		{1, []float64{5, 5, 5, 5}},
		{0.25, []float64{0, 8, 0, 0}},
		{0.9, []float64{2, 1}},
		{0, []float64{0, 0}},
		{0, nil},
	} {
		if got := jain(c.shares); got != c.want {
			t.Errorf("%v: %v, want %v", c.shares, got, c.want)
		}
	}
}

// The goal: the processes hold for 1 ms unless the flag says something else, and 0 is something
// else.
func TestProcesses_Flags(t *testing.T) {
	for want, args := range map[time.Duration][]string{
		time.Millisecond: nil, 0: {"-hold", "0"}, time.Second: {"-hold", "1s"},
	} {
		o, err := parse(append([]string{"-scenario", processesName}, args...), io.Discard)
		if err != nil || o.scenarios[0].hot.hold != want || o.scenarios[0].callers != 8 ||
			o.scenarios[0].hot.processes != 16 {
			t.Errorf("%v: %+v, %v", args, o.scenarios, err)
		}
	}
	for want, args := range map[string][]string{
		"-processes 0: want 1 to 256":        {"-processes", "0"},
		"-process-callers -1: want 1 to":     {"-process-callers", "-1"},
		"-hold 2s: want 0 or a time such as": {"-hold", "2s"},
		`"x" for flag -hold`:                 {"-hold", "x"},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// The goal: the command measures libraries in processes, and prints and writes what it found.
func TestProcesses_Run(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"-nodes", "local:1", "-scenario", processesName, "-processes", "2", "-process-callers", "2",
		"-contenders", "lockpipe,redislock", "-rounds", "1", "-d", "300ms", "-warmup", "20ms",
		"-json", file,
	}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	got := rep.Tables[0]
	if got.Processes != 2 || got.Callers != 2 || got.HoldMs != 1 || len(got.Against) != 1 {
		t.Errorf("%+v", got)
	}
	for _, s := range got.Lines {
		if strings.Contains(s.AnError, errTwoHolders.Error()) || s.PerSecond > 1010 ||
			s.PerSecond > 0 && (s.Jain < 0.49 || s.Jain > 1.001 || s.WorstP99 == 0) {
			t.Errorf("%+v", s)
		}
	}
	if !strings.Contains(out.String(), "2 processes, with 2 callers and one client each") ||
		!strings.Contains(out.String(), "lockpipe against redislock: ") {
		t.Error("the output does not say what was measured")
	}
}
