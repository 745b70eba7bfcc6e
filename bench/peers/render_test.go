package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample is a report with something of each kind.
func sample() *report {
	r := &report{Runs: []circumstances{{
		Scenarios: []string{"one"}, Nodes: 5, Go: "go1.26", Server: "7.0.15",
		CPUModel: "a <processor>",
		Modules: map[string]string{
			"github.com/redis/rueidis": "v1",
			"github.com/bsm/redislock": "v2", "example.org/other": "v3",
		},
	}}}
	line := func(name string, speed float64) summary {
		return summary{
			Contender: name, Where: onQuorum, PerSecond: speed, Lowest: speed / 2,
			Highest: speed * 2, Ratio: speed / 100, P50: 111, P99: 2222,
			Rounds: []round{{Locks: speed, Window: time.Second, CPU: time.Second}},
		}
	}
	for i, name := range []string{"one", "64", "512", "batch"} {
		r.Tables = append(r.Tables, table{
			Scenario: name, About: name + " about, one key a call",
			Keys: 1, Callers: map[string]int{"64": 64}[name], Lines: []summary{
				line(lockpipeName, 4200+float64(i)), line(baseline, 100), line("pipeline", 300),
			},
		})
	}
	for _, name := range []string{"far", "mixed", "held"} {
		thinking, held := line("lockpipe, "+name+" thinking", 10), line("redsync-rueidis, "+name+
			" loop", 20)
		thinking.ReleaseP50, held.ReleaseP50 = 3333, 4444
		r.Tables = append(r.Tables, table{
			Scenario: name, About: name + " about <5 ms & more",
			Keys: 1, Lines: []summary{thinking, held}, HeldP99: 1.25,
		})
	}
	for _, g := range []*growth{growthCallers, growthNodes, growthKeys} {
		c := curve{Scenario: "growth-" + g.axis, Axis: g.axis, Unit: g.unit}
		for _, size := range g.sizes {
			c.Points = append(c.Points, point{size, line("x", float64(1000+size))})
		}
		r.Growth = append(r.Growth, c)
	}
	r.Held = &heldCurve{Scenario: growthHeldName}
	for _, size := range heldSizes(100_000) {
		r.Held.Points = append(r.Held.Points, heldSummary(size, 10*time.Second,
			[]heldRound{{
				Window: time.Second, CPU: time.Duration(size) * 10 * time.Microsecond,
				Extended: uint64(size),
			}}))
	}
	return r
}

// drawn renders reports and returns what was written, by file, and what was printed.
func drawn(t *testing.T, r *report) (files map[string]string, printed string) {
	t.Helper()
	dir := t.TempDir()
	from, out := filepath.Join(dir, "from.json"), filepath.Join(dir, "out")
	if err := r.write(from); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := run(t.Context(), []string{"-render", from, "-out", out}, &b, io.Discard); err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files, b.String()
}

// Every picture is well-formed and says everything that it is about: each line, each size, each
// figure.
func TestRender_PicturesHaveEverySeries(t *testing.T) {
	files, printed := drawn(t, sample())
	wants := map[string][]string{
		"results.json": {`"scenarios"`},
		"peers.svg": {
			"one about", "64 about", "512 about", "batch about",
			"redsync over rueidis", "bare commands", "4,200", "42.0×", "1.00×",
			"lockpipe (one master)", "1,000 (apart)", "distinct keys on five masters",
		},
		"latency.svg": {
			"far about", "mixed about", "held about", "mixed thinking",
			"redsync over rueidis, held loop", "111 us / 2.22 ms / 3.33 ms",
		},
		"growth-callers.svg": {">1<", ">4,096<", "CPU per lock", "Locks per second", ">5,100<"},
		"growth-nodes.svg":   {">1<", ">7<", "nodes", ">1,010<"},
		"growth-keys.svg":    {">1,000<", "keys a call", "CPU per key", ">2,000<"},
		"growth-held.svg": {
			">1,000<", ">1,000,000<", ">10 s<", "per extension",
			"per lease and second", ">10<",
		},
	}
	if got, want := slices.Sorted(maps.Keys(files)),
		slices.Sorted(maps.Keys(wants)); !slices.Equal(got, want) {
		t.Fatalf("files %v, want %v", got, want)
	}
	for name, all := range wants {
		for _, want := range all {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if strings.HasSuffix(name, ".svg") {
			wellFormed(t, name, files[name])
		}
	}
	// A curve has a dot for each size in both of its charts.
	if dots, want := strings.Count(files["growth-callers.svg"], "<circle"),
		2*len(growthCallers.sizes); dots != want {
		t.Errorf("%d dots, want %d", dots, want)
	}
	for _, want := range []string{
		"### mixed", "### growth-keys", "### growth-held",
		"redis/rueidis v1", "| redsync over rueidis | 100 | 1.00 |", "1.25 times",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("the tables do not say %q:\n%s", want, printed)
		}
	}
	if strings.Contains(printed, "example.org") {
		t.Error("a module that nobody asks for is in it")
	}
}

func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("%s has a number that is none", name)
	}
	if !strings.Contains(text, "prefers-color-scheme:dark") || strings.Contains(text, "href") {
		t.Errorf("%s has one colour scheme, or needs something from outside", name)
	}
}

// The same results give the same files, and results of one scenario only its picture.
func TestRender_IsDeterministic(t *testing.T) {
	once, tables := drawn(t, sample())
	again, same := drawn(t, sample())
	if !maps.Equal(once, again) || tables != same {
		t.Error("two renderings differ")
	}
	few, _ := drawn(t, &report{Tables: sample().Tables[:1]})
	if got := fmt.Sprint(slices.Sorted(maps.Keys(few))); got != "[peers.svg results.json]" {
		t.Errorf("of one scenario: %v", got)
	}
}

// Where all is zero or missing there is still a picture.
func TestRender_Nothing(t *testing.T) {
	r := sample()
	for i := range r.Growth {
		for k := range r.Growth[i].Points {
			r.Growth[i].Points[k].summary = summary{Errors: 3}
		}
	}
	for i := range r.Tables {
		for k := range r.Tables[i].Lines {
			r.Tables[i].Lines[k] = summary{Contender: "x"}
		}
	}
	r.Held.Points = nil
	for _, p := range r.pictures() {
		wellFormed(t, p.name, p.text)
	}
	r.markdown()
}
