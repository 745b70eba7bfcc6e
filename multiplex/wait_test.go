package multiplex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// The goal: Poll is Wait: whatever nodes answer, and when, and whenever ctx ends, both come to the
// same outcome at the same time, with one Waker for all attempts of an owner, and nothing is left
// behind.
func TestPoll_IsWait(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for seed := range uint64(200) {
		run := func(way func(*Attempt, context.Context) error) (log []string) {
			synctest.Test(t, func(t *testing.T) { log = drawn(t, seed, way) })
			return log
		}
		want := run(wait)
		var woken chan struct{}
		var w *Waker
		got := run(func(a *Attempt, ctx context.Context) error {
			if w == nil {
				woken = make(chan struct{}, 1)
				w = NewWaker(func() { notify(woken) })
			}
			return pollWith(w, woken, a, ctx)
		})
		require.Equal(t, want, got, "seed %d", seed)
		for _, one := range want {
			outcomes[one[:8]]++
		}
	}
	t.Log(outcomes)
}

// pollWith is what Wait returns, by way of Poll, where the Waker may still tell of an attempt
// before.
func pollWith(w *Waker, woken chan struct{}, a *Attempt, ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { notify(woken) })()
	for {
		if o, settled := a.Poll(ctx, w); settled {
			return asError(o)
		}
		<-woken
	}
}

// drawn has some attempts, one after another, at nodes that are slow, silent, down, or have the key
// for another, all drawn by the seed. It tells how each of them ended and how long that took.
func drawn(t *testing.T, seed uint64, way func(*Attempt, context.Context) error) (log []string) {
	random := rand.New(rand.NewPCG(seed, 7))
	n := 1 + random.IntN(5)
	m, stores, stop := simulated(n, seed, 0)
	defer stop()
	scale := []int{3e6, 15e6, 40e6}[random.IntN(3)]
	for i, nd := range m.nodes {
		nd.SendFlush = answeredBy(func(attempts []*Attempt, answers []node.Answer) {
			for k, a := range attempts {
				// One, mostly: what it meets does not depend on what came before.
				drawn := rand.New(rand.NewPCG(seed,
					uint64(i)<<32|uint64(a.claim.Token()[0])<<8|uint64(a.op.Kind)))
				// Nanoseconds: no two are the same, nor the same as a timer.
				time.Sleep(time.Duration(drawn.IntN(scale)))
				if drawn.IntN(12) == 0 && a.op.Kind != node.Release {
					answers[k] = node.Answer{LeftNothing: true, Replied: true, Err: errBroken}
					continue
				}
				stores[i].mu.Lock()
				answers[k] = stores[i].execute(a)
				stores[i].mu.Unlock()
			}
		})
		if random.IntN(8) == 0 {
			nd.Link.SetState(NodeDown, errBroken)
		}
	}
	for turn := range 6 {
		for _, s := range stores {
			if s.free("k"); random.IntN(4) == 0 {
				s.hold("k", "another")
			}
		}
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if random.IntN(3) == 0 {
			ctx, cancel = context.WithTimeout(ctx,
				time.Duration(random.IntN(30_000))*time.Microsecond+501*time.Nanosecond)
		}
		ttl := []time.Duration{
			10 * time.Millisecond, 30 * time.Millisecond,
			time.Minute,
		}[random.IntN(3)]
		c, start := claim("k", fmt.Sprint(turn)), time.Now()
		err := way(m.AcquireViaArbiter(c, ttl, random.IntN(n+1)-1), ctx)
		log = append(log, fmt.Sprintf("%-8.8s %v %v", fmt.Sprintf("%T", err)[1:], time.Since(start),
			err))
		cancel()
		if err == nil {
			extended := m.Extend(c, 2*ttl, start.Add(ttl), 0, 1)
			start = time.Now()
			err = way(extended, t.Context())
			log = append(log, fmt.Sprintf("extended %v %v", time.Since(start), err))
			_ = wait(m.Release(c, 1), t.Context())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, unanswered(c), "seed %d", seed)
	}
	return log
}

// The goal: the three branches of a caller that leaves. Not sent yet: never sent.
func TestWait_LeavingBeforeSendingLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		blocker, c := new(Claim), new(Claim)
		blocker.Init("", []string{"a"}, "blocker", "")
		c.Init("", []string{"b"}, "token", "")
		m.Acquire(blocker, time.Minute, 1)
		synctest.Wait()
		a := m.Acquire(c, time.Minute, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, wait(a, ctx), context.Canceled)
		require.Zero(t, unsettled(c), "nothing is under way, and nothing can be there")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, map[string]string{"a": "blocker"}, stores[0].left())
		stop()
	})
}

// Answered first: the answer is returned, although ctx has ended.
func TestWait_ReturnsAnAnswerThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token", "")
		a := m.Acquire(c, time.Minute, 1)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, wait(a, ctx))
		stop()
	})
}

// Sent and the caller gone: the late grant is released.
func TestWait_ALateGrantIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token", "")
		a := m.Acquire(c, time.Minute, 1)
		synctest.Wait() // the flushes are under way
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := wait(a, ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, s := range stores {
			require.Empty(t, s.left())
		}
		stop()
	})
}
