package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// growthHeldName is the scenario that asks what a held lease costs if more and more of them are
// held, and nothing else is done.
const growthHeldName = "growth-held"

// The largest lockpipeLeases has a longer TTL than the others, as nodes on one machine can't extend
// so many leases more often. It is held once, because that takes as long as all rounds of the
// others.
const (
	longerTTL = 6
	// longWindow of that TTL has nearly each of its leases extended, which is due when between a
	// quarter and half of it are over.
	longWindow = 25.0 / 60
)

// heldCurve is what became of it.
type heldCurve struct {
	Scenario string      `json:"scenario"`
	About    string      `json:"about"`
	Points   []heldPoint `json:"points"`
}

// heldPoint is a number of leases: medians over its rounds.
type heldPoint struct {
	Leases     int     `json:"leases"`
	TTLSeconds float64 `json:"ttl_s"`
	// PerExtension is the client's CPU time for each confirmed extension, PerLease that for
	// heldLeases a lease for a second.
	PerExtension float64     `json:"client_cpu_us_per_extension"`
	PerLease     float64     `json:"client_cpu_us_per_lease_second"`
	Extensions   float64     `json:"extensions_per_second"`
	ClientCores  float64     `json:"client_cores"`
	ServerCores  float64     `json:"server_cores"`
	Lost         int         `json:"lost"` // of all rounds
	Rounds       []heldRound `json:"rounds"`
}

// heldRound is one time that they were held.
type heldRound struct {
	Take     time.Duration `json:"take_ns"`
	Window   time.Duration `json:"window_ns"`
	Give     time.Duration `json:"give_ns"`
	Extended uint64        `json:"extended"`
	CPU      time.Duration `json:"client_cpu_ns"`
	// ServerCPU is that of all nodes together, 0 if they don't report it.
	ServerCPU time.Duration `json:"server_cpu_ns,omitempty"`
	Lost      int           `json:"lost"`
}

// perExtension is the client's CPU time for each extension in microseconds.
func (r heldRound) perExtension() float64 {
	return ratio(float64(r.CPU)/float64(time.Microsecond), float64(r.Extended))
}

// perLease is the client's CPU time for heldLeases one of so many leases for a second, in
// microseconds.
func (r heldRound) perLease(leases int) float64 {
	return ratio(float64(r.CPU)/float64(time.Microsecond), r.Window.Seconds()*float64(leases))
}

// heldSizes are a hundredth, a tenth and all of the leases of the scenario held, and ten times as
// many.
func heldSizes(leases int) []int {
	return slices.Compact([]int{max(leases/100, 1), max(leases/10, 1), leases, 10 * leases})
}

// runGrowthHeld holds each number of leases once in every round, the largest after them, once.
func runGrowthHeld(ctx context.Context, s scenario, number int, set settings, n *nodes) (heldCurve,
	error,
) {
	c := heldCurve{Scenario: s.name, About: s.about}
	k := &lineup{scenario: s, number: number, nodes: n}
	defer k.close()
	client, err := k.open(ctx, lockpipeEntry(), n)
	if err != nil {
		return c, err
	}
	sizes := heldSizes(s.held.leases)
	rounds := make([][]heldRound, len(sizes))
	last := len(sizes) - 1
	for round := range set.rounds {
		for i, size := range sizes {
			if i == last && round < set.rounds-1 {
				continue
			}
			r, err := k.hold(ctx, client.(holder), size, s.held.plan(i == last, set))
			if err != nil {
				return c, fmt.Errorf("%d held leases: %w", size, err)
			}
			rounds[i] = append(rounds[i], r)
		}
	}
	for i, size := range sizes {
		c.Points = append(c.Points, heldSummary(size, s.held.plan(i == last, set).ttl, rounds[i]))
	}
	return c, nil
}

// heldPlan is how long what is done.
type heldPlan struct{ ttl, settle, window time.Duration }

func (h heldLoad) plan(largest bool, set settings) heldPlan {
	if largest {
		long := min(longerTTL*h.ttl, time.Minute)
		return heldPlan{long, 0, fraction(long, longWindow)}
	}
	return heldPlan{h.ttl, fraction(h.ttl, heldSettle), h.window(set.window)}
}

// hold takes so many leases, keeps them and gives them back.
func (k *lineup) hold(ctx context.Context, h holder, leases int, plan heldPlan) (heldRound, error) {
	var r heldRound
	start := time.Now()
	held, err := h.Hold(ctx, keyPrefix(k.tag(0))+"held:", leases, plan.ttl)
	if err != nil {
		return r, err
	}
	r.Take = time.Since(start)
	sleep(ctx, plan.settle)
	from, extended := usageNow(), held.Extended()
	from.servers, from.known = k.nodes.cpu(ctx)
	sleep(ctx, plan.window)
	to := usageNow()
	r.Extended = held.Extended() - extended
	to.servers, to.known = k.nodes.cpu(ctx)
	var used round
	used.setUsage(from, to)
	r.Window, r.CPU, r.ServerCPU = used.Window, used.CPU, used.ServerCPU
	start = time.Now()
	r.Lost = held.ReleaseAll(context.WithoutCancel(ctx))
	r.Give = time.Since(start)
	return r, ctx.Err()
}

func heldSummary(leases int, ttl time.Duration, rounds []heldRound) heldPoint {
	each := func(f func(heldRound) float64) float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = f(r)
		}
		return median(values)
	}
	p := heldPoint{
		Leases: leases, TTLSeconds: ttl.Seconds(), Rounds: rounds,
		PerExtension: each(heldRound.perExtension),
		PerLease:     each(func(r heldRound) float64 { return r.perLease(leases) }),
		Extensions: each(func(r heldRound) float64 {
			return ratio(float64(r.Extended),
				r.Window.Seconds())
		}),
		ClientCores: each(func(r heldRound) float64 {
			return ratio(r.CPU.Seconds(),
				r.Window.Seconds())
		}),
		ServerCores: each(func(r heldRound) float64 {
			return ratio(r.ServerCPU.Seconds(),
				r.Window.Seconds())
		}),
	}
	for _, r := range rounds {
		p.Lost += r.Lost
	}
	return p
}
