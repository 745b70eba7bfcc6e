package locker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/stretchr/testify/require"
)

// The goal: a handoff has the time that its lease has left, even if the machine is suspended during
// the handoff: it ends when it would have ended. If little is left, the call does not get it. Nor
// does one whose ctx has ended.
func TestHandoff_CountsASuspensionMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slept := time.Hour
		k := newLocker(t, []string{"node:1"}, func(time.Time) time.Duration { return slept },
			hangingDial)
		o := &Options{TTL: ttl, Turn: new(keyqueue.Call)}
		give := func() *Handoff {
			claim := new(parts.Claim)
			claim.Init(k.Mux, []string{"k"}, "token", "")
			return &Handoff{claim, k.clock.Now() + lease.Instant(lease.Validity(o.TTL)), 0}
		}

		g := give()
		slept += 4 * time.Second
		l := k.Accept(t.Context(), g, o)
		require.Equal(t, time.Now().Add(lease.Validity(o.TTL)-4*time.Second), l.Until())

		g = give()
		slept += 10 * time.Second
		require.Nil(t, k.Accept(t.Context(), g, o))

		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.Nil(t, k.Accept(over, give(), o))
	})
}

// contender is a call that contends for a key. It counts how often its turn begins.
type contender struct {
	turn  keyqueue.Call
	turns atomic.Int32
}

func (c *contender) Notify(n keyqueue.News) {
	if n == keyqueue.Turn {
		c.turns.Add(1)
	}
}

// endingContext stands for Locker.Open. It ends a lease when the release asks whether the client is
// being closed.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Err() error {
	c.end()
	return nil
}

// The goal: a call whose turn a release took begins it, also if the lease ends before it can be
// handed over, however it ends. Otherwise the call would wait for ever.
func TestHandoff_ACallWhoseTurnWasTakenBegins(t *testing.T) {
	t.Parallel()
	end := func(cause error) func(*Lease) {
		return func(l *Lease) { _ = l.term.End(cause) }
	}
	for name, endFirst := range map[string]func(*Lease){
		"released": end(lease.ErrReleased),
		"kept":     end(lease.ErrKept),
		"lost":     end(lease.ErrLost),
		"handed":   func(l *Lease) { l.term.HandOff() },
		"expired":  func(l *Lease) { time.Sleep(time.Until(l.Until())) },
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newLocker(t, []string{"node:1"}, awake, hangingDial)
			claim := new(parts.Claim)
			claim.Init(k.Mux, []string{"k"}, "token", "")
			until := k.clock.Now() + lease.Instant(lease.Validity(ttl))
			l := k.Accept(t.Context(), &Handoff{claim, until, 0}, &Options{
				TTL: ttl, // it did not wait in the queue
			})
			c := new(contender)
			c.turn.Caller = c
			_, ok := k.Queue.Enter(&c.turn, []string{"k"}, 1)
			require.True(t, ok)
			k.Queue.Contend(&c.turn, "k", false)
			k.Open = endingContext{k.Open, func() { endFirst(l) }}
			_ = l.startRelease(1)
			require.EqualValues(t, 1, c.turns.Load(), name)
			require.Nil(t, c.turn.Handed, name)
			k.Queue.Leave(&c.turn, time.Now())
		})
	}
}
