package multiplex

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/stretchr/testify/require"
)

// newFlushOf returns a flush that comes from outside of the log.
func newFlushOf(n *node, attempts ...*Attempt) *flush {
	f := n.newFlush()
	f.attempts = append(f.attempts, attempts...)
	f.answers = append(f.answers, make([]answer, len(attempts))...)
	return f
}

// built returns a flush whose commands are made, for this connection.
func built(n *node, conn *link.Conn, attempts ...*Attempt) *flush {
	f := newFlushOf(n, attempts...)
	f.build(conn)
	return f
}

// flushed makes one flush to the node.
func flushed(n *node, attempts ...*Attempt) []answer {
	f := newFlushOf(n, attempts...)
	n.sendAttempts(f)
	defer n.recycleFlush(f)
	return slices.Clone(f.answers)
}

// The goal: an acquire or extension that waited until its outcome was of no use is not sent, and
// left nothing. A release is always sent, and so are attempts that are in time.
func TestFlush_DoesNotSendWhatIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		attempt := func(k kind, name string, worth time.Duration) *Attempt {
			a := m.newAttempt(claim(name, "t"), k, time.Minute, time.Second, worth)
			a.claim.latest, a.claim.acquired = a, m.all()
			return a
		}
		attempts := []*Attempt{
			attempt(acquire, "stale", time.Second), attempt(extend, "stale extension", time.Second),
			attempt(release, "release", time.Second),
			attempt(acquire, "wanted", 2*time.Second), attempt(extend, "wanted extension",
				2*time.Second),
		}
		for _, s := range []struct {
			name  string
			worth time.Duration
		}{{"stale set", time.Second}, {"wanted set", 2 * time.Second}} {
			a := attempt(acquire, "", s.worth)
			a.claim.Init("", []string{s.name, s.name + " too"}, "t")
			attempts = append(attempts, a)
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		f := built(m.nodes[0], nil, attempts...)
		answers, sent := f.answers, map[string]bool{}
		for _, p := range f.own.commands {
			if p.script == nil {
				sent[attempts[p.index].claim.keys()[0]] = true
				continue
			}
			for _, key := range p.call.Keys {
				sent[key] = true
			}
		}
		require.Equal(t, map[string]bool{
			"release": true, "wanted": true, "wanted extension": true,
			"wanted set": true, "wanted set too": true,
		}, sent)
		for i, a := range attempts {
			if !sent[a.claim.keys()[0]] {
				require.Equal(t, answer{leftNothing: true, err: errQueuedTooLong}, answers[i],
					a.claim.keys()[0])
			}
		}
	})
}

// The goal: an extension whose flush waited for a connection until the lease was being released is
// not sent: it would give the node keys of a lease that is over. The seed in sim/testdata/seeds
// shows it with whole clients.
func TestFlush_SendsNoExtensionOfAReleasedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		c := claim("k", "t")
		e := m.newAttempt(c, extend, time.Minute, time.Second, time.Minute)
		plan := func(last *Attempt) (sent int, r answer) {
			c.latest = last
			f := built(m.nodes[0], nil, e)
			return len(f.own.commands), f.answers[0]
		}
		sent, _ := plan(e)
		require.Equal(t, 1, sent)
		sent, r := plan(m.newAttempt(c, release, 0, time.Second, time.Minute))
		require.Zero(t, sent)
		require.Equal(t, answer{leftNothing: true, err: errSuperseded}, r)
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
			trip := m.nodes[0].sendFlush
			m.nodes[0].sendFlush = func(f *flush) {
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

// The goal: before a command is sent once more, because its script was missing, its attempts are
// checked again. Those that are of no use by then are not sent and left nothing. The others are
// sent.
func TestFlush_DoesNotRetryWhatIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		var attempts []*Attempt
		for i, worth := range []time.Duration{2 * time.Second, time.Second, 2 * time.Second} {
			for _, k := range []kind{extend, release} {
				a := m.newAttempt(claim(fmt.Sprint(k, i), "t"), k, time.Minute, time.Second, worth)
				a.claim.latest, a.claim.acquired = a, m.all()
				attempts = append(attempts, a)
			}
		}
		f := built(m.nodes[0], nil, attempts...)
		answers := f.answers
		again := func() (keys []string) {
			f.again.reset()
			f.retry = append(f.retry[:0], f.own.commands...)
			f.buildRetry()
			for _, p := range f.again.commands {
				if p.call != nil {
					keys = append(keys, p.call.Keys...)
				}
			}
			return keys
		}
		require.ElementsMatch(t, []string{"1 0", "1 1", "1 2", "2 0", "2 1", "2 2"}, again(),
			"it is in time")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		require.ElementsMatch(t, []string{"1 0", "1 2", "2 0", "2 1", "2 2"}, again())
		for i, a := range attempts {
			if a.claim.keys()[0] == "1 1" {
				require.Equal(t, answer{leftNothing: true, err: errQueuedTooLong}, answers[i])
			} else {
				require.NoError(t, answers[i].err)
			}
		}
	})
}

// The goal: an extension whose script the server had forgotten is not sent again when the lease was
// released meanwhile, though it was in time.
func TestFlush_RetriesNoExtensionOfAReleasedLease(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		c := claim("k", "t")
		e := m.newAttempt(c, extend, time.Minute, time.Second, time.Minute)
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
		require.Equal(t, []answer{{leftNothing: true, err: errSuperseded}},
			flushed(m.nodes[0], e))
		require.Equal(t, 1, sent)
	})
}

// The goal: if votes do not count, what was not sent still left nothing, and what was answered is
// in doubt.
func TestFlush_InvalidatesRepliesOnly(t *testing.T) {
	unsent := answer{leftNothing: true, err: link.ErrNotConnected}
	broke := answer{broken: true, err: errBroken}
	done := answer{vote: granted, replied: true, keyIndex: -1}
	answers := []answer{unsent, broke, done, {vote: refused, leftNothing: true, replied: true}}
	invalidate(answers)
	doubtful := answer{broken: true, err: link.ErrDataLoss}
	require.Equal(t, []answer{unsent, broke, doubtful, doubtful}, answers)
}

// The goal: behind a node that hangs, calls that have given up leave the queue, so that it does not
// grow with the calls. When the node continues, it is sent no more than was under way.
func TestFlush_CallsThatGaveUpLeaveTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		hang := make(chan struct{})
		var sent atomic.Int64
		m.nodes[0].sendFlush = answeredBy(func(attempts []*Attempt, answers []answer) {
			<-hang
			for i := range attempts {
				answers[i] = answer{vote: granted, replied: true}
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
		require.Equal(t, Won, first.Wait(t.Context(), time.Now()).Result)
		synctest.Wait()
		require.LessOrEqual(t, sent.Load(), int64(2*link.MaxTrips),
			"one acquire in each flush that was under way, and their releases")
		require.Zero(t, m.Nodes()[0].PendingReleases)
		_ = wait(m.Release(first.claim, 1), t.Context())
	})
}
