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
	"time"
)

// Each contender that can wait does not get a key while somebody else holds it, and gets it afterwards.
func TestEveryWaiterWaits(t *testing.T) {
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
			if s, ok := c.(settler); ok {
				if err := s.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			key := keyPrefix("ww") + e.name
			wire := []string{key}
			if nm, ok := c.(namer); ok {
				wire = nm.WireNames(key)
			}
			if err := n.each(t.Context(), wire, "SET", "somebody else", "PX", ttlMillis); err != nil {
				t.Fatal(err)
			}
			w, ok := c.(waiter)
			if !ok {
				t.Fatal("it says how it waits, and can't")
			}
			got := make(chan error, 1)
			go func() {
				unlock, err := w.Wait(t.Context(), key, 0)
				if err == nil {
					err = unlock()
				}
				got <- err
			}()
			select {
			case err := <-got:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			if err := n.each(t.Context(), wire, "DEL"); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it was not granted a free key")
			}
			if err := n.expectHolders(t.Context(), wire, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// mutex is a waiter that is right, unless it is broken.
type mutex struct {
	fake
	mu     sync.Mutex
	broken bool
}

func (m *mutex) Wait(context.Context, string, time.Duration) (func() error, error) {
	if m.broken {
		return func() error { return nil }, nil
	}
	m.mu.Lock()
	return func() error { m.mu.Unlock(); return nil }, nil
}

// A lock that lets two callers in is found, and its locks do not count.
func TestHotFindsTwoHolders(t *testing.T) {
	s := withHot([]scenario{{name: hotName, keys: 1, hot: &hotLoad{}}}, 4, hotLoad{hold: time.Millisecond})[0]
	set := settings{window: 30 * time.Millisecond}
	for broken, want := range map[bool]bool{false: false, true: true} {
		r := measure(t.Context(), s, contestant{crew: []waiter{&mutex{broken: broken}}}, set)
		if found := r.AnError == errTwoHolders.Error(); found != want {
			t.Errorf("broken: %v; two holders found: %v: %+v", broken, found, r)
		}
		if !broken && (r.Locks == 0 || r.Locks > float64(r.Window/time.Millisecond)+1 || r.Errors > 0 || r.Max == 0) {
			t.Errorf("one holder at a time, 1 ms each: %+v", r)
		}
	}
}

// In a hot scenario a lock counts where it was granted, and a wait that is longer than the window shows in Max only.
func TestAHotLockCountsWhereItWasGranted(t *testing.T) {
	at := func(ms int) time.Duration { return time.Duration(1000+ms) * time.Millisecond }
	callers := []caller{{scenario: scenario{keys: 1, hot: &hotLoad{}}, calls: []call{
		{at(-20), 10 * time.Millisecond},  // before
		{at(-10), 20 * time.Millisecond},  // granted within
		{at(10), 80 * time.Millisecond},   // all of it within
		{at(90), 400 * time.Millisecond},  // granted after
		{at(500), 900 * time.Millisecond}, // begun after
	}}}
	r := total(callers, at(0), at(100))
	if r.Locks != 2 || r.MinShare != 1 || r.P50 != 20*time.Millisecond || r.P99 != 80*time.Millisecond || r.Max != 400*time.Millisecond {
		t.Errorf("%+v", r)
	}
	callers = append(callers, caller{scenario: callers[0].scenario, calls: callers[0].calls[1:2]})
	if r := total(callers, at(0), at(100)); r.Locks != 3 || math.Abs(r.MinShare-2.0/3) > 1e-9 {
		t.Errorf("2 locks and 1: %+v", r)
	}
}

// Each caller of a crew waits with a client of its own, and they start again where there are fewer clients.
func TestCallersSpreadOverTheirCrew(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	crew := make([]waiter, 3)
	for i := range crew {
		crew[i] = waitFunc(func() { mu.Lock(); seen[i]++; mu.Unlock(); time.Sleep(time.Millisecond) })
	}
	s := scenario{callers: 4, keys: 1, hot: &hotLoad{own: true}}
	measure(t.Context(), s, contestant{crew: crew}, settings{window: 20 * time.Millisecond})
	if len(seen) != 3 {
		t.Errorf("want all of 3 clients used: %v", seen)
	}
}

// waitFunc is a waiter that is granted everything.
type waitFunc func()

func (f waitFunc) Wait(context.Context, string, time.Duration) (func() error, error) {
	f()
	return func() error { return nil }, nil
}

// A wait that ends with the time that the callers have is an error; one that an interrupt ends is not.
func TestAWaitThatNeverEndsIsAnError(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		k := caller{limit: 10 * time.Millisecond}
		if interrupted {
			cancel()
		}
		k.scenario, k.contestant = scenario{keys: 1, hot: &hotLoad{}}, contestant{crew: []waiter{never{}}}
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

// The flags say how many callers there are, how long they hold and how often they try, in the hot scenarios and in no other.
func TestHotFlags(t *testing.T) {
	o, err := parse([]string{"-callers", "7", "-hold", "1ms", "-retry", "5ms"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range o.scenarios {
		switch {
		case s.hot == nil:
			if s.held == nil && !reflect.DeepEqual(s, scenarios[i]) {
				t.Errorf("changed: %+v", s)
			}
		case s.hot.hold != time.Millisecond || s.hot.retry != 5*time.Millisecond || s.hot.own != (s.name == "hot16"):
			t.Errorf("%s: %+v", s.name, s.hot)
		case s.name == hotName && s.callers != 7, s.name == "hot16" && s.callers != 16:
			t.Errorf("%s has %d callers", s.name, s.callers)
		case !strings.Contains(s.about, "1ms") || !strings.Contains(s.about, "every 5ms"):
			t.Errorf("%s: %q", s.name, s.about)
		}
	}
	for _, s := range scenarios {
		if s.hot != nil && s.hot.hold != 0 {
			t.Error("parse changed the table of scenarios")
		}
	}
}

func TestLockpipeIsComparedWithEachOther(t *testing.T) {
	lines := []summary{
		{Contender: "a", PerSecond: 10, P50: 100, P99: 200, Max: 400},
		{Contender: lockpipeName, PerSecond: 100, P50: 50, P99: 20, Max: 4},
		{Contender: "b"},
	}
	all := against(lines, lockpipeName)
	if len(all) != 2 || all[0] != (versus{"a", 10, 0.5, 0.1, 0.01}) || all[1] != (versus{Contender: "b"}) {
		t.Errorf("%+v", all)
	}
	if against(lines[:1], lockpipeName) != nil {
		t.Error("nothing to compare with")
	}
}

// The command runs both hot scenarios, says how each contender waits, and leaves those out that can't.
func TestRunHot(t *testing.T) {
	if startNodes(t).backend != "redis-server" {
		t.Skip("without client tracking rueidislock waits for longer than a test may")
	}
	file := filepath.Join(t.TempDir(), "peers.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"-nodes", "local:3", "-scenario", "hot,hot16", "-callers", "4", "-hold", "1ms", "-rounds", "1", "-d", "200ms", "-warmup", "20ms",
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
	for _, table := range rep.Tables {
		if len(table.Lines) != 5 || len(table.Against) != 4 || table.HoldMs != 1 || table.RetryMs != 0 {
			t.Errorf("%s: %+v", table.Scenario, table)
		}
		for _, s := range table.Lines {
			if s.PerSecond <= 0 || s.PerSecond > 1010 || s.Errors > 0 || s.Left != 0 {
				t.Errorf("%s, %s: %+v", table.Scenario, s.Contender, s)
			}
		}
	}
	for _, want := range []string{redsyncWaits, redislockWaits, "wait p99 us", "lockpipe against redsync-goredis: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q", want)
		}
	}

	out.Reset()
	err = run(t.Context(), []string{"-nodes", "local:1", "-scenario", "hot", "-contenders", "pipeline"}, &out, io.Discard)
	if err != nil || !strings.Contains(out.String(), "hot: skipped, none of the contenders can wait") {
		t.Errorf("%v: %s", err, &out)
	}
}
