package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// heldLoad is what is held in the scenario held, in the client that the callers use too.
type heldLoad struct {
	leases int
	ttl    time.Duration
}

// defaultHeld is what docs/benchmarks.md is about.
var defaultHeld = heldLoad{leases: 100_000, ttl: 10 * time.Second}

const (
	// mostHeld bounds the memory, since growth-held holds ten times as many: about 700 bytes each.
	mostHeld = 1_000_000
	// leastHeldTTL leaves time for a busy machine to extend.
	leastHeldTTL = 500 * time.Millisecond

	// The callers of the scenario held call by a timetable, together so many times a second on
	// average: well below what the machine can do, or they would measure that there is less of it.
	heldRate = 2000
	// Held leases are extended when between three quarters and half of their TTL are left. So this
	// part of it has each extended at least once, and the time before it spreads those that were
	// taken together: until then they come in waves, half as many again and then none.
	heldWindow = 0.5
	heldSettle = 1.5
)

// withHeld returns the scenarios with what the flags say of held leases.
func withHeld(all []scenario, load heldLoad) []scenario {
	for i := range all {
		s := &all[i]
		if s.held == nil {
			continue
		}
		s.held = &load
		if s.name != growthHeldName {
			s.about = fmt.Sprintf("%d callers, one key a call, together %s times a second, "+
				"beside %s held leases of %v and without",
				s.callers, figures.Thousands(heldRate), figures.Thousands(load.leases), load.ttl)
		}
	}
	return all
}

// window is how long a round with held leases measures: not less than it takes to extend each of
// them.
func (h heldLoad) window(least time.Duration) time.Duration {
	return max(least, fraction(h.ttl, heldWindow))
}

func fraction(d time.Duration, of float64) time.Duration { return time.Duration(float64(d) * of) }

// addHeld adds each contender that extends leases twice: with held leases and without.
func (k *lineup) addHeld(fields []field) (why string) {
	load := *k.scenario.held
	for _, f := range fields {
		h, ok := f.Contender.(holder)
		if !ok {
			continue
		}
		even := &pace{
			mean:      time.Duration(k.scenario.callers) * time.Second / heldRate,
			timetable: true,
		}
		prefix := keyPrefix(k.tag(len(k.all))) + "held:"
		var held heldLeases
		k.add(f, contestant{
			label: fmt.Sprintf("%s, %s held", f.name, figures.Thousands(load.leases)), pace: even,
			before: func(ctx context.Context) (err error) {
				if held, err = h.Hold(ctx, prefix, load.leases, load.ttl); err == nil {
					sleep(ctx, fraction(load.ttl, heldSettle))
				}
				return err
			},
			after: func(ctx context.Context) error {
				if lost := held.ReleaseAll(ctx); lost > 0 {
					return fmt.Errorf("%d of %d held leases were lost", lost, load.leases)
				}
				return nil
			},
		})
		k.add(f, contestant{label: f.name + ", none held", pace: even})
	}
	if len(k.all) == 0 {
		return "none of the contenders extends leases automatically"
	}
	return ""
}

// pairedP99 is the median, over the rounds, of one line's 99th percentile over that of the line
// that took turns with it.
func pairedP99(line, other []round) float64 {
	var ratios []float64
	for i := range min(len(line), len(other)) {
		ratios = append(ratios, ratio(float64(line[i].P99), float64(other[i].P99)))
	}
	return median(ratios)
}
