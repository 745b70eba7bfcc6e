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
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// startNodes starts three masters, and says so in the log if they are no real ones.
func startNodes(t *testing.T) *nodes {
	t.Helper()
	n, err := openNodes(t.Context(), "local:3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	if n.backend != "redis-server" {
		if os.Getenv("LOCKPIPE_REQUIRE_REDIS") != "" {
			t.Fatal("no redis-server on the PATH")
		}
		t.Logf("NO REDIS-SERVER ON THE PATH: tested against %s nodes only", n.backend)
	}
	return n
}

// Each contender of the registry is a lock, works under a little load, and leaves nothing behind
// if nothing failed. A single call may fail: on a machine that is busy with something else a
// library may run out of its time, and failfast reports the commands that it cancels itself.
func TestContenders_Lock(t *testing.T) {
	n := startNodes(t)
	for i, e := range registry {
		t.Run(e.name, func(t *testing.T) {
			fields, err := openAll(t.Context(), []entry{e}, n)
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(fields)
			if got := fields[0].Contender.Name(); got != e.name {
				t.Errorf("it calls itself %q", got)
			}
			c := contestant{
				label: e.name, tag: "t" + string(rune('a'+i)),
				contender: fields[0].Contender,
			}
			if failed := locksUnderLoad(t, c); failed > 0 {
				return
			}
			left, err := n.left(t.Context(), c.tag)
			if err != nil {
				t.Fatal(err)
			}
			// Late keys are what failfast is known for.
			if left > 0 && e.name != "redsync-rueidis-failfast" {
				t.Errorf("it left %d keys behind", left)
			}
		})
	}
}

// locksUnderLoad has a few callers make so many calls as it takes to be sure, and returns how many
// failed. How long that takes, and so how many there are in a given time, is the machine's.
func locksUnderLoad(t *testing.T, c contestant) (failed int) {
	t.Helper()
	const calls = 40 // of each caller
	for _, s := range []scenario{{name: "single", callers: 4, keys: 1}, {
		name: "many", callers: 2,
		keys: 10,
	}} {
		errs := make(chan error, s.callers*calls)
		var working sync.WaitGroup
		for i := range s.callers {
			working.Go(func() {
				for n := range calls {
					errs <- c.call(t.Context(), s.keys, strconv.Itoa(i)+":"+strconv.Itoa(n)+":")
				}
			})
		}
		working.Wait()
		close(errs)
		bad := 0
		for err := range errs {
			if err != nil {
				t.Logf("%s: %v", s.name, err)
				bad++
			}
		}
		if 2*bad > s.callers*calls {
			t.Errorf("%s: more calls failed than locked: %d of %d", s.name, bad, s.callers*calls)
		}
		failed += bad
	}
	return failed
}

// call is one of so many keys of the contestant's own.
func (c contestant) call(ctx context.Context, keys int, name string) error {
	if keys == 1 {
		return c.contender.LockUnlock(ctx, keyPrefix(c.tag)+name)
	}
	all := make([]string, keys)
	for i := range all {
		all[i] = keyPrefix(c.tag) + name + strconv.Itoa(i)
	}
	return c.contender.LockUnlockMany(ctx, all)
}

// fake is a contender made of one function.
type fake func(ctx context.Context, keys []string) error

func (f fake) Name() string                                         { return "fake" }
func (f fake) Close()                                               {}
func (f fake) LockUnlock(ctx context.Context, key string) error     { return f(ctx, []string{key}) }
func (f fake) LockUnlockMany(ctx context.Context, k []string) error { return f(ctx, k) }

// What is no lock must not get into the table: it would be the fastest.
func TestContenders_VerifyRefusesWhatIsNoLock(t *testing.T) {
	n := startNodes(t)
	take := func(ctx context.Context, k []string) error {
		return n.each(ctx, k, "SET", "me", "NX",
			"PX", ttlMillis)
	}
	for name, c := range map[string]fake{
		"never locks":  func(context.Context, []string) error { return nil },
		"always fails": func(context.Context, []string) error { return errors.New("no") },
		"takes what is held": func(ctx context.Context, k []string) error {
			return n.each(ctx, k,
				"DEL")
		},
		"never releases": take,
		"deletes what is held": func(ctx context.Context, k []string) error {
			return errors.Join(take(ctx, k), n.each(ctx, k, "DEL"))
		},
	} {
		if err := verify(t.Context(), c, n); err == nil {
			t.Errorf("a contender that %s passed", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
		if err := n.each(t.Context(), []string{keyPrefix("vv") + "fake"}, "DEL"); err != nil {
			t.Fatal(err)
		}
	}
}

// A call that fails counts as an error and never as a lock, and one that is under way at the end
// shows in Max.
func TestMeasure_CountsErrorsAndStragglers(t *testing.T) {
	synctest.Test(t, measureCountsErrorsAndStragglers)
}

func measureCountsErrorsAndStragglers(t *testing.T) {
	calls := 0
	c := contestant{tag: "zz", contender: fake(func(context.Context, []string) error {
		if calls++; calls%2 == 0 {
			return errors.New("every second one")
		}
		time.Sleep(time.Millisecond)
		return nil
	})}
	s := scenario{callers: 1, keys: 5}
	r := measure(t.Context(), s, c, settings{window: 30 * time.Millisecond})
	if r.Locks == 0 || r.Errors == 0 || r.AnError != "every second one" {
		t.Errorf("half the calls fail: %+v", r)
	}
	c.contender = fake(func(context.Context,
		[]string,
	) error {
		time.Sleep(60 * time.Millisecond)
		return nil
	})
	r = measure(t.Context(), s, c, settings{window: 10 * time.Millisecond})
	if r.Locks > 2 || r.Max < 60*time.Millisecond {
		t.Errorf("one call longer than the window: %+v", r)
	}
}

// The command runs every scenario and writes what it printed as JSON.
func TestRun_PrintsATableAndWritesJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"-nodes", "local:3", "-contenders", "lockpipe,redsync-rueidis,redislock",
		"-scenario", "one,batch,frozen", "-rounds", "2", "-d", "50ms", "-warmup", "20ms", "-json",
		file,
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
	if len(rep.Tables) != 3 || len(rep.Tables[0].Lines) != 3 || len(rep.Tables[2].Lines) != 2 {
		t.Fatalf("want 3 tables of 3, 3 and 2 lines: %s", text)
	}
	for _, table := range rep.Tables {
		for _, s := range table.Lines {
			// Some calls may fail, and leave something: on a busy machine a node is slower than the
			// nodeTimeout with it.
			if s.Errors == 0 && (s.PerSecond <= 0 || s.Left != 0) || len(s.Rounds) != 2 {
				t.Errorf("%s, %s: %+v", table.Scenario, s.Contender, s)
			}
		}
	}
	for _, want := range []string{onOne, "ratio against redsync-rueidis", "1 of 3 frozen"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q", want)
		}
	}
}

func TestFlags_BadOnesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-scenario", "nope"},
		{"-contenders", "nope"},
		{"-rounds", "0"},
		{"-d", "0s"},
		{"extra"},
		{"-nodes", "local:0"},
		{"-callers", "0"},
		{"-callers", "16385"},
		{"-hold", "-1ms"},
		{"-hold", "2s"},
		{"-retry", "-1s"},
		{"-retry", "1m"},
		{"-leases", "0"},
		{"-leases", "2000000"},
		{"-ttl", "100ms"},
		{"-ttl", "2m"},
		{"-render", "/nonexistent/part.json", "-out", "/nonexistent"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
