package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each contender that can wait does not get keys while somebody else holds them, and is granted one
// afterwards. One of three, because it is the libraries' own affair that they fail on a busy
// machine, or miss being woken.
func TestHot_EveryWaiterWaits(t *testing.T) {
	n := startNodes(t)
	for _, e := range registry {
		if e.waits == "" {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			c, err := e.open(n)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if s, ok := c.(readyAwaiter); ok {
				if err := s.AwaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := c.(waiter); !ok {
				t.Fatal("it says how it waits, and can't")
			}
			waitsForOneOf(t, n, c, []string{keyPrefix("ww") + e.name + "1", keyPrefix("ww") +
				e.name + "2", keyPrefix("ww") + e.name + "3"})
		})
	}
}

// waited is how a wait for a key ended.
type waited struct {
	wire    []string // the key, as on the nodes
	granted bool
	err     error // of Wait, or of unlock if it was granted
}

// waitsForOneOf holds the keys as somebody else, and frees them while c waits.
func waitsForOneOf(t *testing.T, n *nodes, c Contender, keys []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan waited, len(keys))
	var wire []string
	for _, key := range keys {
		w := waited{wire: []string{key}}
		if nm, ok := c.(wireNamer); ok {
			w.wire = nm.WireNames(key)
		}
		wire = append(wire, w.wire...)
		if err := n.each(ctx, w.wire, "SET", "somebody else", "PX", ttlMillis); err != nil {
			t.Fatal(err)
		}
		go func() {
			unlock, err := c.(waiter).Wait(ctx, key, 0)
			if w.granted, w.err = err == nil, err; w.granted {
				w.err = unlock()
			}
			ended <- w
		}()
	}
	// It could miss one who does not wait, and accuses nobody else.
	time.Sleep(50 * time.Millisecond)
	for range len(ended) {
		if w := <-ended; w.granted {
			t.Fatalf("it did not wait for %s: %v", w.wire, w.err)
		} else {
			t.Logf("%s: %v", w.wire, w.err)
			keys = keys[1:]
		}
	}
	if err := n.each(ctx, wire, "DEL"); err != nil {
		t.Fatal(err)
	}
	granted := 0
	enough := time.After(10 * time.Second)
	for range keys {
		select {
		case w := <-ended:
			if w.err != nil {
				t.Logf("%s: %v", w.wire, w.err)
			} else if err := n.expectHolders(ctx, w.wire, 0); err != nil {
				t.Error(err)
			}
			if w.granted {
				granted++
			}
		case <-enough:
			t.Logf("it was granted %d of %d free keys", granted, len(keys))
			if granted == 0 {
				t.Error("it was granted none")
			}
			return
		}
	}
	if granted == 0 {
		t.Error("it was granted none of the free keys")
	}
}

// mutex is a waiter that is right, unless it is broken.
type mutex struct {
	fake
	free   chan struct{} // has one while nobody holds the key
	broken bool
}

func (m *mutex) Wait(context.Context, string, time.Duration) (func() error, error) {
	if m.broken {
		return func() error { return nil }, nil
	}
	<-m.free
	return func() error { m.free <- struct{}{}; return nil }, nil
}

// A lock that lets two callers in is found, and its locks do not count.
func TestHot_FindsTwoHolders(t *testing.T) {
	s := scenario{name: hotName, callers: 4, keys: 1, hot: &hotLoad{hold: time.Millisecond}}
	set := settings{window: 30 * time.Millisecond}
	for broken, want := range map[bool]bool{false: false, true: true} {
		synctest.Test(t, func(t *testing.T) {
			m := &mutex{free: make(chan struct{}, 1), broken: broken}
			m.free <- struct{}{}
			r := measure(t.Context(), s, contestant{waiters: []waiter{m}}, set)
			if found := r.AnError == errTwoHolders.Error(); found != want {
				t.Errorf("broken: %v; two holders found: %v: %+v", broken, found, r)
			}
			if !broken && (r.Locks == 0 || r.Locks > float64(r.Window/time.Millisecond)+1 ||
				r.Errors > 0 || r.Max == 0) {
				t.Errorf("one holder at a time, 1 ms each: %+v", r)
			}
		})
	}
}

// In a hot scenario a lock counts when it was granted, and a wait that is longer than the window
// shows in Max only.
func TestHot_ALockCountsWhenItWasGranted(t *testing.T) {
	at := func(ms int) time.Duration { return time.Duration(1000+ms) * time.Millisecond }
	callers := []caller{{scenario: scenario{keys: 1, hot: &hotLoad{}}, calls: []call{
		{at(-20), 10 * time.Millisecond},  // before
		{at(-10), 20 * time.Millisecond},  // granted within
		{at(10), 80 * time.Millisecond},   // all of it within
		{at(90), 400 * time.Millisecond},  // granted after
		{at(500), 900 * time.Millisecond}, // begun after
	}}}
	r := total(callers, at(0), at(100))
	if r.Locks != 2 || r.MinShare != 1 || r.P50 != 20*time.Millisecond ||
		r.P99 != 80*time.Millisecond || r.Max != 400*time.Millisecond {
		t.Errorf("%+v", r)
	}
	callers = append(callers, caller{scenario: callers[0].scenario, calls: callers[0].calls[1:2]})
	if r := total(callers, at(0), at(100)); r.Locks != 3 || math.Abs(r.MinShare-2.0/3) > 1e-9 {
		t.Errorf("2 locks and 1: %+v", r)
	}
}

// Each caller waits with a client of its own, and they start again if there are fewer
// clients.
func TestHot_CallersHaveClientsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[int]int{}
		waiters := make([]waiter, 3)
		for i := range waiters {
			waiters[i] = waitFunc(func() {
				mu.Lock()
				seen[i]++
				mu.Unlock()
				time.Sleep(
					time.Millisecond)
			})
		}
		s := scenario{callers: 4, keys: 1, hot: &hotLoad{own: true}}
		set := settings{window: 20 * time.Millisecond}
		measure(t.Context(), s, contestant{waiters: waiters}, set)
		if len(seen) != 3 {
			t.Errorf("want all of 3 clients used: %v", seen)
		}
	})
}

// waitFunc is a waiter that is granted everything.
type waitFunc func()

func (f waitFunc) Wait(context.Context, string, time.Duration) (func() error, error) {
	f()
	return func() error { return nil }, nil
}

// A wait that ends with the time that the callers have is an error; one that an interrupt ends is
// not.
func TestHot_AWaitThatNeverEndsIsAnError(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		k := caller{limit: 10 * time.Millisecond}
		if interrupted {
			cancel()
		}
		k.scenario, k.contestant = scenario{keys: 1, hot: &hotLoad{}},
			contestant{waiters: []waiter{never{}}}
		k.phase, k.inside = new(atomic.Int32), new(atomic.Int32)
		k.runHot(ctx)
		cancel()
		if (k.errors > 0) == interrupted {
			t.Errorf("interrupted: %v; %d errors, %v", interrupted, k.errors, k.err)
		}
	}
}

// never is a waiter that is never granted anything.
type never struct{}

func (never) Wait(ctx context.Context, _ string, _ time.Duration) (func() error, error) {
	<-ctx.Done()
	return nil, errors.New("never")
}

// The flags say how many callers there are, how long they hold and how often they try, in the hot
// scenarios and in no other.
func TestHot_Flags(t *testing.T) {
	o, err := parse([]string{
		"-callers", "7", "-hold", "2ms", "-retry", "5ms", "-processes", "3",
		"-process-callers", "2",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range o.scenarios {
		switch {
		case s.hot == nil:
			if s.held == nil && !reflect.DeepEqual(s, scenarios[i]) {
				t.Errorf("changed: %+v", s)
			}
		case s.hot.hold != 2*time.Millisecond || s.hot.retry != 5*time.Millisecond ||
			s.hot.own != (s.name == "hot16"):
			t.Errorf("%s: %+v", s.name, s.hot)
		case s.name == hotName && s.callers != 7, s.name == "hot16" && s.callers != 16:
			t.Errorf("%s has %d callers", s.name, s.callers)
		case s.name == processesName && (s.callers != 2 || s.hot.processes != 3):
			t.Errorf("%s has %d processes of %d callers", s.name, s.hot.processes, s.callers)
		case !strings.Contains(s.about, "2ms") || !strings.Contains(s.about, "every 5ms"):
			t.Errorf("%s: %q", s.name, s.about)
		}
	}
	for _, s := range scenarios {
		if s.hot != nil && s.hot.hold == 2*time.Millisecond {
			t.Error("parse changed the table of scenarios")
		}
	}
}

func TestHot_LockpipeIsComparedWithEachOther(t *testing.T) {
	lines := []summary{
		{Contender: "a", PerSecond: 10, P50: 100, P99: 200, Max: 400},
		{Contender: lockpipeName, PerSecond: 100, P50: 50, P99: 20, Max: 4},
		{Contender: "b"},
	}
	all := against(lines, lockpipeName)
	if len(all) != 2 || all[0] != (versus{"a", 10, 0.5, 0.1, 0.01}) ||
		all[1] != (versus{Contender: "b"}) {
		t.Errorf("%+v", all)
	}
	if against(lines[:1], lockpipeName) != nil {
		t.Error("nothing to compare with")
	}
}

// The command runs both hot scenarios, says how each contender waits, and leaves those out that
// can't.
func TestHot_Run(t *testing.T) {
	if startNodes(t).backend != "redis-server" {
		t.Skip("without client tracking rueidislock waits for longer than a test may")
	}
	file := filepath.Join(t.TempDir(), "peers.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"-nodes", "local:3", "-scenario", "hot,hot16", "-callers", "4", "-hold", "1ms", "-rounds",
		"1", "-d", "200ms", "-warmup", "20ms",
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
	if len(rep.Tables) != 2 {
		t.Fatalf("want 2 tables: %s", text)
	}
	locks := 0.0
	for _, table := range rep.Tables {
		if len(table.Lines) != 5 || len(table.Against) != 4 || table.HoldMs != 1 ||
			table.RetryMs != 0 {
			t.Errorf("%s: %+v", table.Scenario, table)
		}
		for _, s := range table.Lines {
			// On a busy machine some calls may fail, and leave something; but never are there two
			// holders.
			if s.PerSecond > 1010 || strings.Contains(s.AnError, errTwoHolders.Error()) ||
				s.Errors == 0 && s.Left != 0 {
				t.Errorf("%s, %s: %+v", table.Scenario, s.Contender, s)
			}
			locks += s.PerSecond
		}
	}
	if locks <= 0 {
		t.Error("there is no lock in any window")
	}
	for _, want := range []string{
		redsyncWaits, redislockWaits, "wait p99 us",
		"lockpipe against redsync-goredis: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q", want)
		}
	}

	out.Reset()
	err = run(t.Context(), []string{
		"-nodes", "local:1", "-scenario", "hot", "-contenders",
		"pipeline",
	}, &out, io.Discard)
	if err != nil || !strings.Contains(out.String(),
		"hot: skipped, none of the contenders can wait") {
		t.Errorf("%v: %s", err, &out)
	}
}
