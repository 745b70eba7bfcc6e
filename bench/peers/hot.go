package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// A waiter can wait for a key until its holder releases it. Only waiters take part in the
// hot scenarios.
type waiter interface {
	// Wait takes key for ttl as soon as it can, or fails when ctx ends. Where the library tries
	// again at intervals, retry is the time between two tries, and 0 stands for what its
	// documentation gives.
	Wait(ctx context.Context, key string, retry time.Duration) (unlock func() error, err error)
}

// hotLoad is what makes a scenario a hot one: all callers wait for one and the same key.
type hotLoad struct {
	// own gives each caller a client of its own, as if it were another process.
	own bool
	// processes is how many processes the callers are in; 0: in this one.
	processes int
	// hold is how long a caller keeps the key; retry is Wait's.
	hold, retry time.Duration
	// If callers of other processes want the key too, its holder gives the file marked a second
	// name, marking. That name can be given once, so a second holder is noticed.
	marked, marking string
}

// hotFlags is what the flags say of the hot scenarios.
type hotFlags struct {
	callers                   int            // of hot
	processes, processCallers int            // of hot-processes
	hold                      *time.Duration // nil: that of each scenario
	retry                     time.Duration
}

// defaultHotCallers is how many callers wait for the key in the scenario hot.
const defaultHotCallers = 64

// maxHotCallers is as many calls as a client of lockpipe is sure to take at the same time; maxHold
// leaves time for others to have the key too before drain is over.
const (
	maxHotCallers = 16384
	maxHold       = time.Second
)

// drain is how long after the window the last waiters may still get the key. They are not cut off:
// redsync releases what it has of a failed attempt with the context that it was given, so a
// cancelled call would leave keys to the next round. It is that long so that rueidislock, which
// shortens a lock's time to its context's, has no reason to.
const drain = 2 * ttl

// errTwoHolders is what no lock may ever show.
var errTwoHolders = errors.New("two callers held the key at the same time")

// withHot returns the scenarios with what the flags say of the hot ones.
func withHot(all []scenario, f hotFlags) []scenario {
	all = slices.Clone(all)
	for i := range all {
		s := &all[i]
		if s.hot == nil {
			continue
		}
		load := *s.hot
		s.hot = &load
		switch s.name {
		case hotName:
			s.callers = f.callers
		case processesName:
			s.callers, s.hot.processes = f.processCallers, f.processes
		}
		if f.hold != nil {
			s.hot.hold = *f.hold
		}
		s.hot.retry = f.retry
		s.about = hotAbout(*s)
	}
	return all
}

// hotAbout says what a hot scenario does.
func hotAbout(s scenario) string {
	about := fmt.Sprintf("%d callers wait for ONE key and hold it for %v; they share one client",
		s.callers, s.hot.hold)
	switch {
	case s.hot.processes > 0:
		about = fmt.Sprintf("%d processes, with %d callers and one client each, wait for ONE key "+
			"and hold it for %v", s.hot.processes, s.callers, s.hot.hold)
	case s.hot.own:
		about = fmt.Sprintf("%d callers wait for ONE key and hold it for %v; each has a client "+
			"of its own", s.callers, s.hot.hold)
	}
	if s.hot.retry > 0 {
		about += fmt.Sprintf("; redsync and redislock try again every %v", s.hot.retry)
	}
	return about
}

// hotKey is the key that all callers of a contestant wait for.
func hotKey(tag string) string { return keyPrefix(tag) + "hot" }

// runHot waits, holds and gives back until the window is over. A call is as long as it waited.
func (k *caller) runHot(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, k.limit)
	defer cancel()
	var (
		load = k.scenario.hot
		w    = k.contestant.waiters[k.number%len(k.contestant.waiters)]
		key  = hotKey(k.contestant.tag)
	)
	for k.phase.Load() != stopping && ctx.Err() == nil {
		begin := time.Since(epoch)
		unlock, err := w.Wait(ctx, key, load.retry)
		waited := time.Since(epoch) - begin
		if err == nil {
			err = k.holdOn(load.hold, unlock)
		}
		k.count(call{begin, waited}, err, parent.Err() != nil)
	}
}

// holdOn keeps the key for a while and gives it back.
func (k *caller) holdOn(d time.Duration, unlock func() error) error {
	var failed error
	if k.inside.Add(1) != 1 {
		failed = errTwoHolders
	}
	load := k.scenario.hot
	if failed == nil && load.marked != "" {
		if failed = os.Link(load.marked, load.marking); errors.Is(failed, fs.ErrExist) {
			failed = errTwoHolders
		}
	}
	if d > 0 {
		time.Sleep(d)
	}
	if failed == nil && load.marked != "" {
		failed = os.Remove(load.marking)
	}
	k.inside.Add(-1)
	return errors.Join(failed, unlock())
}

// p99 is the 99th percentile of a caller's waits that ended between begin and end. If there is none
// it is the longest wait that began before the end, or that failed.
func (k *caller) p99(begin, end time.Duration) time.Duration {
	var took []time.Duration
	longest := k.failed
	for _, c := range k.calls {
		granted := c.begin + c.took
		if granted > begin && granted <= end {
			took = append(took, c.took)
		}
		if c.begin < end {
			longest = max(longest, c.took)
		}
	}
	if len(took) == 0 {
		return longest
	}
	slices.Sort(took)
	return percentile(took, 99)
}

// locks is how many locks a call counts for in a window: if a call is only the acquire, a lock
// belongs to the moment at which it was granted, and to nothing before.
func (k *caller) locks(c call, begin, end time.Duration) float64 {
	if k.scenario.hot == nil && k.contestant.pace == nil {
		return c.share(begin, end) * float64(k.scenario.keys)
	}
	if granted := c.begin + c.took; granted < begin || granted > end {
		return 0
	}
	return 1
}

// openOwnClients opens so many clients of each contender that can wait, and uses each of them once.
// A client that it has opened is closed with the field.
func openOwnClients(ctx context.Context, fields []field, n *nodes, size int) error {
	for i := range fields {
		f := &fields[i]
		if _, ok := f.Contender.(waiter); !ok {
			continue
		}
		for m := range size {
			c, err := openUsed(ctx, f.entry, n)
			if err != nil {
				return fmt.Errorf("client %d of %d: %w", m+1, size, err)
			}
			f.ownClients = append(f.ownClients, c)
		}
	}
	return nil
}

// openUsed opens a client of a contender, and uses it once.
func openUsed(ctx context.Context, e entry, n *nodes) (Contender, error) {
	c, err := e.open(n)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", e.name, err)
	}
	if s, ok := c.(readyAwaiter); ok {
		err = s.AwaitReady(ctx)
	}
	if err == nil {
		err = c.LockUnlock(ctx, keyPrefix("vv")+e.name)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return c, nil
}

// waiters returns what waits for a contender in a hot scenario: its one client, or the clients that
// callers have for themselves. There are none if it can't wait.
func (f field) waiters(own bool) []waiter {
	one, ok := f.Contender.(waiter)
	if !ok {
		return nil
	}
	if !own {
		return []waiter{one}
	}
	waiters := make([]waiter, len(f.ownClients))
	for i, c := range f.ownClients {
		waiters[i] = c.(waiter)
	}
	return waiters
}

// addHot adds the contenders that can wait, one line each.
func (k *lineup) addHot(fields []field) (why string) {
	found := false
	for _, f := range fields {
		if waiters := f.waiters(k.scenario.hot.own); len(waiters) > 0 {
			k.add(f, contestant{label: f.Name(), waiters: waiters, where: "; " + f.waits})
			found = true
		}
	}
	if !found {
		return "none of the contenders can wait"
	}
	return ""
}

// versus is how lockpipe compares with one other line of a hot table: its figure over theirs,
// medians all.
type versus struct {
	Contender string  `json:"contender"`
	PerSecond float64 `json:"locks_per_second"`
	P50       float64 `json:"wait_p50"`
	P99       float64 `json:"wait_p99"`
	Max       float64 `json:"wait_max"`
}

// against compares the line of one contender with each of the others. There is nothing to compare
// if it has no line.
func against(lines []summary, name string) []versus {
	i := slices.IndexFunc(lines, func(s summary) bool { return s.Contender == name })
	if i < 0 {
		return nil
	}
	var all []versus
	ours := lines[i]
	for k, theirs := range lines {
		if k == i {
			continue
		}
		all = append(all, versus{
			Contender: theirs.Contender, PerSecond: ratio(ours.PerSecond, theirs.PerSecond),
			P50: ratio(ours.P50, theirs.P50), P99: ratio(ours.P99, theirs.P99), Max: ratio(ours.Max,
				theirs.Max),
		})
	}
	return all
}

// ratio returns a quotient, or 0 if there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
