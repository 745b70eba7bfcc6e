package multiplex

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// alone is an attempt that is sent outside of the log. Only the test hears the answer.
type alone struct {
	*operation
	answer *node.Answer
}

func (o alone) Record(_ int, r node.Answer) { *o.answer = r }

// flushed makes one flush to the node, from outside of the log.
func flushed(n *node.Node, attempts ...*Attempt) []node.Answer {
	answers := make([]node.Answer, len(attempts))
	var sent []node.Operation
	for i, a := range attempts {
		sent = append(sent, alone{(*operation)(a), &answers[i]})
	}
	n.SendAlone(sent)
	return answers
}

// The goal: an acquire or extension that waited until its outcome was of no use is not sent. A
// release is always sent if the node may hold the token, and so are attempts that are in time.
func TestFlush_DoesNotSendWhatIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		attempt := func(k node.Kind, worth time.Duration) *Attempt {
			a := m.newAttempt(claim("k", "t"), k, time.Minute, time.Second, worth)
			a.claim.latest, a.claim.may = a, m.all()
			return a
		}
		stale := []*Attempt{attempt(node.Acquire, time.Second), attempt(node.Extend, time.Second)}
		wanted := []*Attempt{
			attempt(node.Release, time.Second), attempt(node.Acquire, 2*time.Second),
			attempt(node.Extend, 2*time.Second),
		}
		never := attempt(node.Release, time.Second)
		never.claim.may = 0
		for _, a := range append(stale, wanted...) {
			require.NoError(t, (*operation)(a).Skip(0, false, time.Now()))
		}
		require.Equal(t, node.ErrNotNeeded, (*operation)(never).Skip(0, false, time.Now()))
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		for _, a := range stale {
			require.Equal(t, node.ErrQueuedTooLong, (*operation)(a).Skip(0, false, time.Now()))
		}
		for _, a := range wanted {
			require.NoError(t, (*operation)(a).Skip(0, false, time.Now()))
		}
	})
}

// The goal: an extension whose flush waited for a connection until the lease was being released is
// not sent: it would give the node keys of a lease that is over. Nor is an acquire sent behind its
// release. The seed in sim/testdata/seeds shows it with whole clients.
func TestFlush_SendsNothingOfAReleasedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		c := claim("k", "t")
		c.may = m.all()
		for _, k := range []node.Kind{node.Acquire, node.Extend} {
			a := m.newAttempt(c, k, time.Minute, time.Second, time.Minute)
			c.latest = a
			require.NoError(t, (*operation)(a).Skip(0, false, time.Now()))
			c.latest = m.newAttempt(c, node.Release, 0, time.Second, time.Minute)
			require.Equal(t, node.ErrSuperseded, (*operation)(a).Skip(0, false, time.Now()))
		}
	})
}

// The goal: an acquire that has to be sent once more is not, if its claim has asked for an
// extension since: that may have been sent in between, and the acquire would come behind it.
func TestFlush_SendsNoAcquireAgainBehindAnExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		c := claim("k", "t")
		c.may = m.all()
		a := m.newAttempt(c, node.Acquire, time.Minute, time.Second, time.Minute)
		c.latest = a
		require.NoError(t, (*operation)(a).Skip(0, true, time.Now()))
		c.latest = m.newAttempt(c, node.Extend, time.Minute, time.Second, time.Minute)
		require.NoError(t, (*operation)(a).Skip(0, false, time.Now()), "its place is before that")
		require.Equal(t, node.ErrSuperseded, (*operation)(a).Skip(0, true, time.Now()))
	})
}

// The goal: an extension is neither sent nor waited for when the lease may be over, or when half of
// its TTL has passed.
func TestFlush_SendsNoExtensionThatComesTooLate(t *testing.T) {
	const delay = time.Second
	for _, test := range []struct{ ttl, before, waits time.Duration }{
		{time.Minute, delay / 2, delay / 2},
		{time.Minute, delay + 1, delay},
		{delay, time.Minute, delay / 2},
		{3 * delay, delay / 2, delay / 2},
		{3 * delay, time.Minute, delay},
	} {
		onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
			c := claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			trip := m.nodes[0].SendFlush
			m.nodes[0].SendFlush = func(f *node.Flush) {
				time.Sleep(delay)
				trip(f)
			}
			var sent atomic.Bool
			actors[0].hear(func(command string) {
				if command == "EVALSHA" {
					sent.Store(true)
				}
			})
			start := time.Now()
			err := wait(m.Extend(c, test.ttl, start.Add(test.before), 0, 1), t.Context())
			require.Equal(t, test.waits, time.Since(start), "%+v", test)
			time.Sleep(2 * delay)
			synctest.Wait()
			require.Equal(t, test.waits == delay, sent.Load(), "%+v", test)
			require.Equal(t, test.waits == delay, err == nil, "%+v", test)
		})
	}
}

// The goal: an extension whose script the server had forgotten is not sent again when the lease was
// released meanwhile, though it was in time.
func TestFlush_RetriesNoExtensionOfAReleasedLease(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		c := claim("k", "t")
		e := m.newAttempt(c, node.Extend, time.Minute, time.Second, time.Minute)
		c.latest = e
		sent := 0
		actors[0].play(map[string]string{
			"EVALSHA": "-NOSCRIPT No matching script. Please use EVAL.\r\n",
		})
		actors[0].hear(func(command string) {
			if command == "EVALSHA" {
				sent++
				c.mu.Lock()
				c.latest = nil
				c.mu.Unlock()
			}
		})
		require.Equal(t, []node.Answer{{LeftNothing: true, Err: node.ErrSuperseded}},
			flushed(m.nodes[0], e))
		require.Equal(t, 1, sent)
	})
}

// The goal: behind a node that hangs, calls that have given up leave the queue, so that it does not
// grow with the calls. When the node continues, it is sent no more than was under way.
func TestFlush_CallsThatGaveUpLeaveTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		hang := make(chan struct{})
		var sent atomic.Int64
		m.nodes[0].SendFlush = answeredBy(func(attempts []*Attempt, answers []node.Answer) {
			<-hang
			for i := range attempts {
				answers[i] = node.Answer{Vote: node.Granted, Replied: true}
			}
			sent.Add(int64(len(attempts)))
		})
		left, leave := context.WithCancel(t.Context())
		leave()
		first := m.Acquire(claim("first", "t"), time.Minute, 1)
		synctest.Wait()
		for i := range 5000 {
			a := m.Acquire(claim(fmt.Sprint("k", i), "t"), time.Minute, 1)
			if i%1000 == 0 {
				require.ErrorIs(t, wait(a, t.Context()), ErrNoQuorum)
				continue
			}
			_ = wait(a, left)
			require.LessOrEqual(t, m.Nodes()[0].Pending, 1100)
		}
		close(hang)
		synctest.Wait()
		require.Equal(t, Won, first.Wait(t.Context()).Result)
		synctest.Wait()
		require.LessOrEqual(t, sent.Load(), int64(2*link.MaxTrips),
			"one acquire in each flush that was under way, and their releases")
		require.Zero(t, m.Nodes()[0].PendingReleases)
		_ = wait(m.Release(first.claim, 1), t.Context())
	})
}

// The goal: calls with long keys that wait together are spread over many trips, so the bytes that
// are under way to a node are bounded. The bound leaves short keys alone.
func TestFlush_HasABoundedNumberOfBytes(t *testing.T) {
	t.Parallel()
	for length, mayHave := range map[int]int{100: 512 * 100, 1 << 13: 512 * 512} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(1, 1, 0)
			defer stop()
			var most atomic.Int64
			trip := m.nodes[0].SendFlush
			m.nodes[0].SendFlush = func(f *node.Flush) {
				bytes := 0
				for _, o := range f.Ops {
					for _, key := range o.Op().Keys.All() {
						bytes += len(key)
					}
				}
				most.Store(max(most.Load(), int64(bytes)))
				time.Sleep(10 * time.Millisecond)
				trip(f)
			}
			m.cfg.NodeTimeout = time.Minute
			var callers sync.WaitGroup
			for i := range 1000 {
				c := claim(strings.Repeat("k", length-4)+fmt.Sprintf("%04d", i), "t")
				callers.Go(func() {
					require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
				})
			}
			callers.Wait()
			require.LessOrEqual(t, most.Load(), int64(mayHave))
			require.Greater(t, most.Load(), int64(mayHave)/3)
		})
	}
}
