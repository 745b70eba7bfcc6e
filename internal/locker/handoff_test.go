package locker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/stretchr/testify/require"
)

// The goal: a handoff has the time that its lease has left, even if the machine is suspended during
// the handoff. If little is left, the lease is extended first. Otherwise it ends when it would have
// ended. A call whose ctx has ended gets nothing.
func TestHandoff_CountsASuspensionMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slept := time.Hour
		k := newLocker(t, []string{"node:1"}, func(time.Time) time.Duration { return slept },
			hangingDial)
		o := &Options{TTL: ttl}
		until := time.Now().Add(lease.Validity(o.TTL))
		give := func() *Handoff {
			claim := new(parts.Claim)
			claim.Init(k.Mux, []string{"k"}, "token", "")
			return &Handoff{claim, until, k.Suspended(), new(handoffChain)}
		}

		g := give()
		slept += 4 * time.Second
		l, a := k.Accept(t.Context(), g, new(keyqueue.Call), o)
		require.False(t, a.IsPending())
		require.Equal(t, until.Add(-4*time.Second), l.Until())

		g = give()
		slept += 10 * time.Second
		_, a = k.Accept(t.Context(), g, new(keyqueue.Call), o)
		require.True(t, a.IsPending())

		over, cancel := context.WithCancel(t.Context())
		cancel()
		l, a = k.Accept(over, give(), new(keyqueue.Call), o)
		require.True(t, l == nil && !a.IsPending(), "a call whose ctx has ended")
	})
}
