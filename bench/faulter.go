package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// faulter lets faults happen to the nodes of a run, each at its time, one goroutine for each node
// that has any. What it broke is mended when it has ended.
type faulter struct {
	start   time.Time
	working sync.WaitGroup

	mu   sync.Mutex // guards all below until working is done
	done []FaultResult
	errs []error
}

// startFaults starts the faults of a run, if it has any. They end with ctx, after Config.Duration,
// or by the function that it returns, which tells what has happened: nil without faults. The error
// beside it is of what could not happen.
func (c Config) startFaults(ctx context.Context, nodes nodePlan) (end func() (*FaultReport, error),
	err error,
) {
	plan, err := parseFaults(c.Faults, nodes.size(), c.Duration)
	if err != nil || c.Faults == "" {
		return func() (*FaultReport, error) { return nil, nil }, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Duration)
	f := &faulter{start: time.Now(), done: []FaultResult{}}
	byNode := make(map[int][]fault)
	for _, one := range plan.schedule(c, nodes.size()) {
		byNode[one.node] = append(byNode[one.node], one)
	}
	for number, own := range byNode {
		v := &victim{nodes: nodes.started, number: number - 1, routes: nodes.routes, age: age}
		f.working.Go(func() { f.harm(ctx, v, own) })
	}
	return func() (*FaultReport, error) {
		cancel()
		f.working.Wait()
		slices.SortFunc(f.done, func(a, b FaultResult) int { return cmp.Compare(a.FromS, b.FromS) })
		return &FaultReport{Faults: f.done}, errors.Join(f.errs...)
	}, nil
}

// harm makes the faults of one node, in the order of their times, until ctx ends.
func (f *faulter) harm(ctx context.Context, v *victim, list []fault) {
	for _, one := range list {
		if !f.await(ctx, one.at) {
			break
		}
		begun := time.Now()
		mend, err := v.strike(one.action)
		if mend != nil {
			f.await(ctx, one.end())
			err = errors.Join(err, mend())
		}
		f.note(one, one.String(), begun, err)
	}
	if v.dead {
		begun := time.Now()
		last := fault{action: restart, node: v.number + 1}
		f.note(last, fmt.Sprintf("%s:%d at the end", last.action, last.node), begun, v.restart())
	}
}

// await reports whether ctx was still alive at a time since the start.
func (f *faulter) await(ctx context.Context, at time.Duration) bool {
	timer := time.NewTimer(time.Until(f.start.Add(at)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// note enters a fault that is over, told by a text.
func (f *faulter) note(one fault, text string, begun time.Time, err error) {
	r := FaultResult{
		Fault: text, Action: string(one.action), Node: one.node,
		FromS: begun.Sub(f.start).Seconds(), UntilS: time.Since(f.start).Seconds(),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		r.Error = err.Error()
		f.errs = append(f.errs, fmt.Errorf("fault %s: %w", text, err))
	}
	f.done = append(f.done, r)
}
