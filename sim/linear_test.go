package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/stretchr/testify/require"
)

// step is one thing that a client did with the key, as the client saw it. All clients read the same
// virtual clock. Times count from the start of the run.
type step struct {
	kind             string // acquire, look, end or write
	outcome          string // for people who read the history
	called, returned time.Duration
	lease            int64         // its number; 0: the client got no lease
	until            time.Duration // the deadline of the lease that the client knows
	fence            int64         // of the lease; 0: the client asked for none
	accepted         bool          // the register took the write
}

// leasedKey is what the steps of all clients must look like together: one key with one lease at a
// time, and one register that takes writes in the order of their fences.
type leasedKey struct {
	lease   int64         // the number of the lease that has the key; 0: none
	until   time.Duration // the deadline of that lease
	granted int64         // the highest fence of all leases so far
	written int64         // the highest fence that the register took
}

// next returns whether s is right when the key is in the state k, and the state behind s.
func (k leasedKey) next(s step) (bool, leasedKey) {
	switch {
	case s.kind == "acquire" && s.lease == 0:
		return true, k // the call was refused, or its outcome is unknown: the client has no lease
	case s.kind == "acquire":
		isFree := k.lease == 0 || k.until <= s.returned
		rises := s.fence == 0 || s.fence > k.granted
		return isFree && rises, leasedKey{s.lease, s.until, max(k.granted, s.fence), k.written}
	case s.kind == "look": // the client tried to extend, or only looked, and believes its lease
		isHolder := k.lease == s.lease && s.called <= k.until
		k.until = s.until
		return isHolder, k
	case s.kind == "end" && k.lease == s.lease: // the client does not believe its lease any more
		k.lease = 0
		return true, k
	case s.kind == "end":
		return s.until <= s.returned, k // the lease was over, and another may have the key
	case s.accepted:
		isAbove := s.fence > k.written && s.fence <= k.granted
		k.written = max(k.written, s.fence)
		return isAbove, k
	default:
		return s.fence <= k.written, k
	}
}

var leasedKeyModel = porcupine.Model{
	Init: func() any { return leasedKey{} },
	Step: func(state, input, _ any) (bool, any) {
		return state.(leasedKey).next(input.(step))
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// recorder has clients that want one key all the time, and records their steps.
type recorder struct {
	run      *run
	register fence.Checker
	leases   atomic.Int64 // how many there were

	mu     sync.Mutex // guards all below; a leaf
	steps  []porcupine.Operation
	counts map[string]int // how often each kind of step had each outcome
}

// recordSteps runs clients for 40 seconds of virtual time. Nodes restart empty, and other faults
// come, after these times on average. 0 means never.
func recordSteps(t *testing.T, seed uint64, guard lockpipe.GuardMode, faultEvery,
	restartEvery time.Duration,
) (rec *recorder) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		plan := &Plan{
			clients: 3, callers: 2, keys: 1, length: 40 * time.Second,
			timeout: 20 * time.Millisecond, latency: time.Millisecond,
			spikes: 2, spike: 30 * time.Millisecond, thinkTime: 20 * time.Millisecond,
			faultEvery: faultEvery, lossEvery: restartEvery, guard: guard,
			minTTL: 50 * time.Millisecond, maxTTL: 400 * time.Millisecond,
			clientMaxTTL: 400 * time.Millisecond,
		}
		rec = &recorder{run: newRun(seed, plan), counts: map[string]int{}}
		for _, p := range rec.run.processes {
			p.startClient()
		}
		time.Sleep(recoveryTime) // all clients have met all nodes
		var all sync.WaitGroup
		faults := &nemesis{run: rec.run, rng: rand.New(rand.NewPCG(seed, 1))}
		all.Go(faults.injectFaults) // frozen nodes, partitions, connections that break
		all.Go(func() { rec.restartNodes(rand.New(rand.NewPCG(seed, 2))) })
		for i := range plan.clients * plan.callers {
			rng := rand.New(rand.NewPCG(seed, uint64(1000+i)))
			all.Go(func() {
				for rec.run.sleep(around(rng, plan.thinkTime)) {
					rec.useKey(i, rng)
				}
			})
		}
		all.Wait()
		rec.run.drain()
	})
	t.Logf("seed %d: %d steps, %v", seed, len(rec.steps), rec.counts)
	return rec
}

// restartNodes restarts one node, a quorum or all nodes together. Each comes back empty.
func (rec *recorder) restartNodes(rng *rand.Rand) {
	every := rec.run.plan.lossEvery
	for every > 0 && rec.run.sleep(around(rng, every)) {
		first := rng.IntN(nodes)
		for i := range []int{1, 1, nodes/2 + 1, nodes}[rng.IntN(4)] {
			rec.run.nodes[(first+i)%nodes].Restart()
		}
	}
}

// useKey acquires the key, holds it for a while, writes to the register and releases the key. Now
// and then the write is late: the caller does not look whether its lease lasts.
func (rec *recorder) useKey(caller int, rng *rand.Rand) {
	p := rec.run.processes[caller/rec.run.plan.callers]
	p.jitter(rng)
	lease, last := rec.acquire(caller, p.currentClient(), rng)
	if lease == nil {
		return
	}
	for looks := rng.IntN(4); looks > 0 && last.kind != "end"; looks-- {
		time.Sleep(around(rng, rec.run.plan.thinkTime))
		last = rec.look(caller, lease, last, rng)
	}
	if rng.IntN(3) == 0 {
		time.Sleep(around(rng, 2*rec.run.plan.maxTTL))
	}
	if last.fence > 0 {
		rec.write(caller, last.fence, rng)
	}
	end := last
	end.kind, end.called = "end", rec.now()
	ctx, cancel := context.WithTimeout(context.Background(), around(rng, 100*time.Millisecond))
	defer cancel()
	end.outcome = rec.run.outcome(lease.Release(ctx), releasing)
	if last.kind != "end" {
		rec.record(caller, end)
	}
}

// acquire makes one call that acquires the key. It returns a lease that lasts, or nil.
func (rec *recorder) acquire(caller int, c *lockpipe.Client, rng *rand.Rand) (*lockpipe.Lease,
	step,
) {
	opts := []lockpipe.Option{lockpipe.WithTTL(rec.run.plan.drawTTL(rng))}
	if rng.IntN(3) > 0 {
		opts = append(opts, lockpipe.WithFencing())
	}
	call := c.Acquire
	if rng.IntN(3) == 0 {
		call = c.TryAcquire
	}
	ctx, cancel := context.WithTimeout(context.Background(), around(rng, 500*time.Millisecond))
	defer cancel()
	s := step{kind: "acquire", called: rec.now()}
	lease, err := call(ctx, "k0", opts...)
	s.outcome = rec.run.outcome(err, acquiring)
	if s.until = rec.until(lease); s.until > 0 {
		s.lease, s.fence = rec.leases.Add(1), lease.Fence()
	}
	rec.record(caller, s)
	if s.lease == 0 {
		return nil, s
	}
	return lease, s
}

// look looks whether a lease lasts, and extends it before that or does not. last is the step before
// with the lease. If the lease is over, it ended between the call and the look.
func (rec *recorder) look(caller int, lease *lockpipe.Lease, last step, rng *rand.Rand) step {
	s := last
	s.kind, s.called, s.outcome = "look", rec.now(), ""
	if rng.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), around(rng, 100*time.Millisecond))
		s.outcome = rec.run.outcome(lease.Extend(ctx, rec.run.plan.drawTTL(rng)), extending)
		cancel()
	}
	if until := rec.until(lease); until > 0 {
		s.until = until
	} else {
		s.kind = "end"
	}
	rec.record(caller, s)
	return s
}

// write sends a write with this fence to the register. The write and the answer take some time.
func (rec *recorder) write(caller int, number int64, rng *rand.Rand) {
	s := step{kind: "write", fence: number, called: rec.now()}
	time.Sleep(around(rng, rec.run.plan.latency))
	s.accepted = rec.register.Allow("k0", number)
	time.Sleep(around(rng, rec.run.plan.latency))
	s.outcome = fmt.Sprint(s.accepted)
	rec.record(caller, s)
}

// now returns how long the run has taken.
func (rec *recorder) now() time.Duration { return time.Since(rec.run.history.start) }

// until returns the deadline of a lease, 0 if the lease is over.
func (rec *recorder) until(lease *lockpipe.Lease) time.Duration {
	if at := lease.Until(); !at.IsZero() {
		return at.Sub(rec.run.history.start)
	}
	return 0
}

// record adds a step that ends now.
func (rec *recorder) record(caller int, s step) {
	s.returned = rec.now()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.counts[s.kind+" "+s.outcome]++
	rec.steps = append(rec.steps, porcupine.Operation{
		ClientId: caller, Input: s, Call: int64(s.called), Return: int64(s.returned),
	})
}

// refused reports whether porcupine refuses a history. Of a history that it should not refuse, it
// leaves a picture.
func refused(t *testing.T, steps []porcupine.Operation, expected bool) bool {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(leasedKeyModel, steps, time.Minute)
	require.NotEqual(t, porcupine.Unknown, result, "porcupine took too long")
	if result == porcupine.Illegal && !expected {
		path := filepath.Join(os.TempDir(), "lockpipe-linear.html")
		t.Logf("the history is in %s: %v", path, porcupine.VisualizePath(leasedKeyModel, info, path))
	}
	return result == porcupine.Illegal
}

// changed returns a copy of a history in which change has changed each step.
func changed(steps []porcupine.Operation, change func(*step)) []porcupine.Operation {
	steps = slices.Clone(steps)
	for i, o := range steps {
		s := o.Input.(step)
		change(&s)
		steps[i].Input = s
	}
	return steps
}

// The goal: nodes freeze, are cut off, lose connections and restart empty. A checker that is not
// ours reads what the clients saw, and finds one lease of the key at a time. Each lease ends at its
// deadline at the latest. Fences rise with the leases, and a register refuses each late write. The
// checker refuses the same history if one of these rules is broken in it.
func TestLinear_AKeyHasOneLeaseAtATime(t *testing.T) {
	for seed := range uint64(3) {
		rec := recordSteps(t, seed, lockpipe.GuardAuto, 300*time.Millisecond, 3*time.Second)
		require.Empty(t, rec.run.history.violations)
		require.False(t, refused(t, rec.steps, false), "seed %d", seed)
		for name, change := range map[string]func(*step){
			"the register takes a late write": func(s *step) { s.accepted = true },
			"all leases have the same fence":  func(s *step) { s.fence = min(s.fence, 1) },
			"an expired lease is believed": func(s *step) {
				if s.outcome == "expired" {
					s.kind = "look"
				}
			},
		} {
			require.True(t, refused(t, changed(rec.steps, change), true), name)
		}
	}
}

// The goal: without the restart guard, the checker finds that two clients had the key, and only if
// nodes restart empty.
func TestLinear_WithoutTheGuardARestartGivesTwoHolders(t *testing.T) {
	kept := recordSteps(t, 1, lockpipe.GuardOff, 300*time.Millisecond, 0)
	require.Empty(t, kept.run.history.violations)
	require.False(t, refused(t, kept.steps, false))
	lost := recordSteps(t, 1, lockpipe.GuardOff, 0, 500*time.Millisecond)
	require.True(t, refused(t, lost.steps, true))
}
