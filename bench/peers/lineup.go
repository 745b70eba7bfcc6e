package main

import (
	"context"
	"fmt"
)

// A lineup is who takes part in one scenario: one contestant for each line of its table, with the
// clients that were opened for it alone.
type lineup struct {
	scenario scenario
	number   int // of the scenario in this run; it is part of the keys
	nodes    *nodes
	all      []contestant
	closers  []func()
}

// newLineup finds the lineup of a scenario, or says why there can be none. Close it, also after an
// error.
func newLineup(ctx context.Context, s scenario, number int, fields []field, n *nodes) (k *lineup,
	why string, err error,
) {
	k = &lineup{scenario: s, number: number, nodes: n}
	switch {
	case s.hot != nil:
		why = k.addHot(fields)
	case s.name == frozenName:
		why = k.addFrozen(fields)
	case s.delays != nil:
		why, err = k.addFar(ctx, fields)
	case s.held != nil:
		why = k.addHeld(fields)
	default:
		for _, f := range fields {
			k.add(f, contestant{label: f.Name()})
		}
	}
	return k, why, err
}

// add gives a contestant what follows from its contender and its place.
func (k *lineup) add(f field, c contestant) {
	c.contender, c.where = f.Contender, f.where+c.where
	c.tag = k.tag(len(k.all))
	if k.scenario.name != frozenName { // a stopped node reports nothing
		c.nodes = k.nodes
	}
	k.all = append(k.all, c)
}

// tag is what the keys of the contestant at a place begin with.
func (k *lineup) tag(place int) string { return fmt.Sprintf("%x%x", k.number, place) }

func (k *lineup) close() {
	for _, c := range k.closers {
		c()
	}
}

// addFrozen adds each contender that can say when it has recovered twice, with and without a
// stopped node.
func (k *lineup) addFrozen(fields []field) (why string) {
	n := k.nodes
	if n.local == nil || len(n.urls) < 3 {
		return "it needs at least 3 local nodes"
	}
	for _, f := range fields {
		c, ok := f.Contender.(readyAwaiter)
		if !ok {
			continue
		}
		settle := c.AwaitReady
		k.add(f, contestant{label: f.Name(), before: settle})
		k.add(f, contestant{
			label: fmt.Sprintf("%s, 1 of %d frozen", f.Name(), len(n.urls)),
			where: "; a stopped local node leaves its CPU time to the others, so this can be " +
				"the faster line",
			before: func(context.Context) error { return n.freeze() },
			after: func(ctx context.Context) error {
				if err := n.thaw(); err != nil {
					return err
				}
				return settle(ctx)
			},
		})
	}
	if len(k.all) == 0 {
		return "it is a scenario of lockpipe"
	}
	return ""
}
