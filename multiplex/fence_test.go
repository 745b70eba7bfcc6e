package multiplex

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// The goal: a claim without a fence has no memory for one. A lease and its claim are one piece of
// memory of 256 bytes at most, which is a size that Go's allocator has.
func TestFence_AClaimWithoutOneIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Claim{}), uintptr(120))
}

// The goal: another attempt is worth it at once if the fence was too low on a quorum and nothing is
// left. It is worth it after the release if the nodes that said so and those that granted, or may
// grant, are a quorum. Otherwise it is not. Of a large set, parts may be left on nodes on which the
// fence was too low.
func TestFence_TooLowIsExplained(t *testing.T) {
	g, s := node.Answer{Vote: node.Granted, Replied: true, KeyIndex: -1},
		node.Answer{Err: &node.FenceTooLowError{Seen: 7}}
	e := node.Answer{Err: errors.New("LOADING")}
	r, top := node.Answer{Vote: node.Refused, Replied: true},
		node.Answer{Err: &node.FenceTooLowError{Seen: script.MaxFence}}
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for i, c := range []struct {
			keys          int
			votes         []node.Answer
			seen          int64
			again, atOnce bool
		}{
			{1, []node.Answer{s, s, s}, 7, true, true},
			{125, []node.Answer{s, s, g}, 7, true, true},
			{126, []node.Answer{s, s, s}, 7, true, false},
			{1, []node.Answer{s, e, g}, 7, true, false},
			{1, []node.Answer{e, s, e}, 7, false, false},
			{1, []node.Answer{r, s, r}, 7, false, false},
			{1, []node.Answer{e, e, g}, 0, false, false},
			{1, []node.Answer{s, g, g}, 7, false, false},
			{1, []node.Answer{s, s, top}, 7, true, true},
			{1, []node.Answer{s, top, g}, 7, true, false},
			{1, []node.Answer{s, top, e}, 7, false, false},
			{1, []node.Answer{top, top, top}, 0, false, false},
		} {
			var claim Claim
			claim.Init("", make([]string, c.keys), "t", "")
			claim.Fence(time.Now(), 5, 5)
			a := m.newAttempt(&claim, node.Acquire, time.Minute, time.Second, time.Second)
			for i, v := range c.votes {
				a.addVote(i, v)
			}
			seen, again, atOnce := a.FenceTooLow()
			require.Equal(t, []any{c.seen, c.again, c.atOnce}, []any{seen, again, atOnce}, i)
		}
	})
}

// The goal: the validity of an attempt to acquire with a fence counts from before its numbers were
// taken, and that of no other from then.
func TestFence_ValidityCountsFromBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for _, begin := range []func(c *Claim) *Attempt{
			func(c *Claim) *Attempt { return m.Acquire(c, time.Minute, 1) },
			func(c *Claim) *Attempt { return m.AcquireViaArbiter(c, time.Minute, 1) },
		} {
			c := claim("k", "t")
			before := time.Now()
			c.Fence(before, 5, 9)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, before, begin(c).Sent())
			now := time.Now()
			require.Equal(t, now, m.Extend(c, time.Minute, now.Add(time.Minute), 0, 1).Sent())
			require.Equal(t, now, m.Release(c, 1).Sent())
		}
		require.Equal(t, time.Now(), m.Acquire(claim("plain", "t"), time.Minute, 1).Sent())
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
