package main

import (
	"context"
	"fmt"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// growth is a scenario that asks how a lock's cost grows: lockpipe alone, with one thing at several
// sizes, in turns.
type growth struct {
	axis, unit string
	sizes      []int
	// at returns the load of a size, and on how many nodes.
	at func(size int) (s scenario, nodes int)
}

// usualNodes is how many nodes there are if nothing else is said.
const usualNodes = 5

var (
	growthCallers = &growth{
		axis: "callers", unit: "lock", sizes: []int{1, 4, 16, 64, 256, 1024, 4096},
		at: func(size int) (scenario, int) { return scenario{callers: size, keys: 1}, usualNodes },
	}
	growthNodes = &growth{
		axis: "nodes", unit: "lock", sizes: []int{1, 3, 5, 7},
		at: func(size int) (scenario, int) { return scenario{callers: 64, keys: 1}, size },
	}
	growthKeys = &growth{
		axis: "keys", unit: "key", sizes: []int{1, 10, 100, 1000},
		at: func(size int) (scenario, int) { return scenario{callers: 8, keys: size}, usualNodes },
	}
)

// curve is what became of one growth scenario.
type curve struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	// Axis is what the points differ in; Unit is what is counted as a lock.
	Axis   string  `json:"axis"`
	Unit   string  `json:"unit"`
	Points []point `json:"points"`
}

type point struct {
	Size int `json:"size"`
	summary
}

// runGrowth measures each size once in every round.
func runGrowth(ctx context.Context, s scenario, number int, set settings, n *nodes) (curve, error) {
	g := s.growth
	c := curve{Scenario: s.name, About: s.about, Axis: g.axis, Unit: g.unit}
	k := &lineup{scenario: s, number: number, nodes: n}
	defer k.close()
	if most := g.mostNodes(); n.local != nil && len(n.urls) < most {
		more, err := openNodes(ctx, fmt.Sprintf("local:%d", most))
		if err != nil {
			return c, err
		}
		k.nodes = more
		k.closers = append(k.closers, more.close)
	}
	loads, err := k.addGrowth(ctx)
	if err != nil {
		return c, err
	}
	rounds := make([][]round, len(k.all))
	for range set.rounds {
		for i, x := range k.all {
			rounds[i] = append(rounds[i], measure(ctx, loads[i], x, set))
			if err := ctx.Err(); err != nil {
				return c, err
			}
		}
	}
	for i, x := range k.all {
		left := -1
		if k.nodes.local != nil {
			if left, err = k.nodes.left(ctx, x.tag); err != nil {
				return c, err
			}
		}
		c.Points = append(c.Points, point{g.sizes[i], summarize(x, rounds[i], left)})
	}
	return c, nil
}

func (g *growth) mostNodes() int {
	most := 0
	for _, size := range g.sizes {
		_, count := g.at(size)
		most = max(most, count)
	}
	return most
}

// addGrowth adds a contestant for each size, and returns their loads. Those on the same number of
// nodes share a client.
func (k *lineup) addGrowth(ctx context.Context) ([]scenario, error) {
	g := k.scenario.growth
	clients := map[int]Contender{}
	client := func(count int) (Contender, error) {
		count = min(count, len(k.nodes.urls))
		if clients[count] == nil {
			c, err := k.open(ctx, lockpipeEntry(), k.nodes.first(count))
			if err != nil {
				return nil, err
			}
			clients[count] = c
		}
		return clients[count], nil
	}
	// All nodes at once first: a few that are in use already, next to new ones, would look like new
	// ones that forgot.
	if _, err := client(g.mostNodes()); err != nil {
		return nil, err
	}
	var loads []scenario
	for _, size := range g.sizes {
		load, count := g.at(size)
		load.level = true
		c, err := client(count)
		if err != nil {
			return nil, err
		}
		k.add(field{entry: lockpipeEntry(), Contender: c}, contestant{
			label: figures.Thousands(size) + " " + g.axis,
		})
		loads = append(loads, load)
	}
	return loads, nil
}

// first returns some of the nodes.
func (n *nodes) first(count int) *nodes {
	some := *n
	some.urls = n.urls[:count]
	return &some
}

// lockpipeEntry is lockpipe's line of the registry.
func lockpipeEntry() entry { return registry[0] }
