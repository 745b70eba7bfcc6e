package bench

import (
	"context"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/nodes"
)

// movePhases is how many MaxTTL the scenario Move needs at least: a sixth of the time until the
// first Client is replaced, one until all are, MaxTTL until the next may be, and a sixth for that.
const movePhases = 3

// layouts returns how many layouts the nodes are divided into.
func (c Config) layouts() int {
	if c.Scenario == Move {
		return 2
	}
	return 1
}

// validateGroups requires that the nodes can be divided into the layouts and groups.
func (c Config) validateGroups(plan nodes.Plan, require requirement) {
	require(plan.Size()%c.layouts() == 0, "Nodes", plan, "scenario move needs an even number of nodes: "+
		"the first half is the old layout, the second the new one; give local:6")
	remedy := plan.CheckGroups(c.Groups, c.layouts())
	require(remedy == "", "Groups", c.Groups, "%s", remedy)
}

// validateMove requires what the scenario Move needs in addition.
func (c Config) validateMove(require requirement) {
	if c.Scenario != Move {
		return
	}
	require(c.Clients >= 2, "Clients", c.Clients, "scenario move replaces them one after the "+
		"other; give at least 2")
	require(c.Duration >= movePhases*c.TTL, "Duration", c.Duration, "scenario move needs at least "+
		"%v, %d times the TTL; give that, or a shorter TTL", movePhases*c.TTL, movePhases)
}

// prepareMove is prepare for the scenario Move.
func prepareMove(cfg Config, prefix string, clients []*lockpipe.Client, maker *fleet.Maker) (
	run func(context.Context) (measured, *HoldReport, error), all func() []*lockpipe.Client,
) {
	mover := maker.Mover(fleet.MoveConfig{
		Duration: cfg.Duration, MaxTTL: cfg.TTL, CloseTimeout: cfg.TTL + closeGrace,
		SkipBoth: cfg.skipBoth,
	}, clients)
	l := newLoad(cfg, prefix, func(worker int) locker {
		return newMoveLocker(cfg, mover.NewCaller(worker%len(clients)))
	})
	l.clients = mover.Clients
	return func(ctx context.Context) (measured, *HoldReport, error) {
		mover.Start(ctx)
		m := l.run(ctx)
		err := mover.Stop(ctx)
		m.move = mover.Report()
		return m, nil, err
	}, mover.Clients
}

// moveLocker is a caller of the scenario Move: it waits for one key, of whichever Client its seat
// has.
type moveLocker struct {
	wholeLocker
	caller *fleet.Caller
}

func newMoveLocker(cfg Config, caller *fleet.Caller) locker {
	options := cfg.options()
	acquire := func(ctx context.Context, names []string) (*lockpipe.Lease, error) {
		return caller.Acquire(ctx, names[0], options...)
	}
	return &moveLocker{wholeLocker{acquire: acquire, extends: cfg.AutoExtend > 0}, caller}
}

func (l *moveLocker) unlock(ctx context.Context) {
	l.caller.Releases()
	l.wholeLocker.unlock(ctx)
	l.caller.Released(l.results[0].err, l.results[0].until)
}
