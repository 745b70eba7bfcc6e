package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// runner injects faults, each at its time. Each node that has any has a goroutine of its own.
type runner struct {
	start   time.Time
	working sync.WaitGroup

	mu      sync.Mutex // guards all below until working is done
	results []Result
	errs    []error
}

// Servers are what the faults of a run happen to.
type Servers struct {
	Nodes  *lockpipetest.Nodes
	Routes *Routes
	// Cluster has the servers, and Slots is the slot of each node, if they are in a Redis Cluster.
	Cluster *lockpipetest.Cluster
	Slots   []int
}

// Start starts the faults of a plan, whose times count from now. They end with ctx, after
// d.Duration, or when stop is called. stop repairs the nodes and returns the faults that happened,
// in the order in which they began. Its error is about faults that could not happen.
func (p Plan) Start(ctx context.Context, s Servers, d Draw) (stop func() ([]Result, error)) {
	ctx, cancel := context.WithTimeout(ctx, d.Duration)
	r := &runner{start: time.Now(), results: []Result{}}
	byNode := make(map[int][]Fault)
	for _, f := range p.schedule(d) {
		byNode[f.node] = append(byNode[f.node], f)
	}
	var inCluster *shards
	if s.Cluster != nil {
		inCluster = &shards{cluster: s.Cluster, slots: s.Slots, cut: map[int]bool{}}
	}
	for number, own := range byNode {
		t := &target{
			nodes: s.Nodes, number: number - 1, node: number - 1, shards: inCluster,
			routes: s.Routes, growOld: waitForAge,
		}
		r.working.Go(func() { r.runFaults(ctx, t, own) })
	}
	return func() ([]Result, error) {
		cancel()
		r.working.Wait()
		if inCluster != nil {
			r.errs = append(r.errs, inCluster.awaitHealthy())
		}
		slices.SortFunc(r.results, func(a, b Result) int { return cmp.Compare(a.FromS, b.FromS) })
		return r.results, errors.Join(r.errs...)
	}
}

// runFaults injects the faults of one node, in the order of their times, until ctx ends.
func (r *runner) runFaults(ctx context.Context, t *target, list []Fault) {
	for _, f := range list {
		if !r.sleepUntil(ctx, f.at) {
			break
		}
		begun := time.Now()
		revert, err := t.inject(f.action)
		if revert != nil {
			r.sleepUntil(ctx, f.end())
			err = errors.Join(err, revert())
		}
		r.add(f, f.String(), begun, err)
	}
	if t.killed {
		begun := time.Now()
		last := Fault{action: restart, node: t.node + 1}
		r.add(last, fmt.Sprintf("%s:%d at the end", last.action, last.node), begun, t.restart())
	}
}

// sleepUntil sleeps until a time since the start. It reports false if ctx ended before.
func (r *runner) sleepUntil(ctx context.Context, at time.Duration) bool {
	over, cancel := context.WithDeadline(ctx, r.start.Add(at))
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

// add enters a fault that is over. text names it.
func (r *runner) add(f Fault, text string, begun time.Time, err error) {
	result := Result{
		Fault: text, Action: f.action.name, Node: f.node,
		FromS: begun.Sub(r.start).Seconds(), UntilS: time.Since(r.start).Seconds(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		result.Error = err.Error()
		r.errs = append(r.errs, fmt.Errorf("fault %s: %w", text, err))
	}
	r.results = append(r.results, result)
}
