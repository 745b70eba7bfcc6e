package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// measured runs the command in a tiny setting, and returns what it wrote.
func measured(t *testing.T, args ...string) *report {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	file := filepath.Join(t.TempDir(), "part.json")
	var out bytes.Buffer
	args = append(args, "-rounds", "1", "-d", "100ms", "-warmup", "20ms", "-leases", "200", "-ttl",
		"2s", "-json", file)
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	r, err := readReports([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// At a distance each contender has a line for callers that think and one for those that don't, and
// no acquire takes less than the way.
func TestStudies_FarAndMixed(t *testing.T) {
	r := measured(t, "-scenario", "far,mixed", "-contenders",
		"lockpipe,redsync-rueidis,redsync-goredis,redislock", "-nodes", "local:5")
	if len(r.Tables) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, x := range r.Tables {
		if len(x.Lines) != 6 {
			t.Errorf("%s: %d lines", x.Scenario, len(x.Lines))
		}
		for _, s := range x.Lines {
			if s.P50 > 0 && s.P50 < 1000 || s.PerSecond <= 0 || s.Left > 0 {
				t.Errorf("%s: %+v", s.Contender, s)
			}
		}
	}
}

// Beside held leases the same callers run as without, in turns; nothing is left of either.
func TestStudies_Held(t *testing.T) {
	r := measured(t, "-scenario", "held", "-contenders", "lockpipe,redsync-rueidis", "-nodes",
		"local:3")
	if len(r.Tables) != 1 || len(r.Tables[0].Lines) != 2 || r.Tables[0].HeldP99 <= 0 {
		t.Fatalf("%+v", r.Tables)
	}
	for i, want := range []string{"200 held", "none held"} {
		s := r.Tables[0].Lines[i]
		if !strings.Contains(s.Contender, want) || s.Left != 0 || s.ReleaseP50 <= 0 {
			t.Errorf("%+v", s)
		}
	}
}

// Each size of each axis is measured, with the nodes that it asks for.
func TestStudies_Growth(t *testing.T) {
	r := measured(t, "-scenario", "growth", "-contenders", "lockpipe", "-nodes", "local:3")
	if len(r.Growth) != 3 || r.Held == nil {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.Growth {
		for _, p := range c.Points {
			// On a busy machine calls of thousands may all fail; but each size is there.
			if p.Size < 1000 && p.PerSecond <= 0 || p.CPUPerLock < 0 || p.Left != 0 {
				t.Errorf("%s %d: %+v", c.Scenario, p.Size, p.summary)
			}
		}
	}
	if got := len(r.Growth[1].Points); got != len(growthNodes.sizes) {
		t.Errorf("%d numbers of nodes", got)
	}
	for i, p := range r.Held.Points {
		if p.Leases != heldSizes(200)[i] || p.Extensions <= 0 || p.Lost > 0 || len(p.Rounds) != 1 {
			t.Errorf("%+v", p)
		}
	}
	if runs := r.Runs[0]; len(runs.Scenarios) != 4 || runs.Go == "" ||
		runs.Modules["github.com/redis/rueidis"] == "" {
		t.Errorf("%+v", runs)
	}
}
