package main

import (
	"slices"
	"testing"
	"time"
)

// The ratio is taken round by round, since both lines of a round saw the same machine; then the
// median counts.
func TestHeld_PairedP99(t *testing.T) {
	line := []round{{P99: 2}, {P99: 30}, {P99: 90}}
	other := []round{{P99: 1}, {P99: 10}, {P99: 100}}
	if got := pairedP99(line, other); got != 2 {
		t.Errorf("%v", got)
	}
	if got := pairedP99(nil, other); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// Each number of leases has its TTL and time, and the median of its rounds; leases that were lost
// are of all rounds.
func TestHeld_Summary(t *testing.T) {
	at := func(cpu time.Duration, extended uint64) heldRound {
		return heldRound{
			Window: 2 * time.Second, CPU: cpu, Extended: extended,
			ServerCPU: time.Second, Lost: 1,
		}
	}
	p := heldSummary(100, 10*time.Second, []heldRound{at(time.Second, 1000), at(2*time.Second,
		1000), at(4*time.Second, 1000)})
	if p.PerExtension != 2000 || p.PerLease != 10_000 || p.Extensions != 500 ||
		p.ClientCores != 1 || p.ServerCores != 0.5 || p.Lost != 3 || p.TTLSeconds != 10 {
		t.Errorf("%+v", p)
	}
	if p := heldSummary(100, time.Second, []heldRound{{}}); p.PerExtension != 0 || p.PerLease != 0 {
		t.Errorf("nothing was extended: %+v", p)
	}
}

// The largest number of leases has the longer TTL, and a window of its own; none exceeds what a
// client takes.
func TestHeld_Plans(t *testing.T) {
	load := heldLoad{100_000, 10 * time.Second}
	if got := heldSizes(load.leases); !slices.Equal(got, []int{1000, 10_000, 100_000, 1_000_000}) {
		t.Errorf("sizes %v", got)
	}
	if got := heldSizes(1); !slices.Equal(got, []int{1, 10}) {
		t.Errorf("sizes of one %v", got)
	}
	set := settings{window: 2 * time.Second}
	if p := load.plan(false, set); p.ttl != 10*time.Second || p.window != 5*time.Second {
		t.Errorf("%+v", p)
	}
	if p := load.plan(true, set); p.ttl != time.Minute || p.window != 25*time.Second {
		t.Errorf("%+v", p)
	}
	load.ttl = time.Minute
	if p := load.plan(true, set); p.ttl != time.Minute {
		t.Errorf("%+v", p)
	}
}
