package multiplex

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// The goal: a claim without a fence has no memory for one. A lease and its claim are one piece of
// memory of 256 bytes at most, which is a size that Go's allocator has.
func TestFence_AClaimWithoutOneIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Claim{}), uintptr(120))
}

// The goal: another attempt is worth it if the nodes that said that the fence was too low and those
// that granted, or may grant, are a quorum. Otherwise it is not.
func TestFence_TooLowIsExplained(t *testing.T) {
	g, s := node.Answer{Vote: node.Granted, Replied: true, KeyIndex: -1},
		node.Answer{Err: &node.FenceTooLowError{Seen: 7}}
	e := node.Answer{Err: errors.New("LOADING")}
	r, top := node.Answer{Vote: node.Refused, Replied: true},
		node.Answer{Err: &node.FenceTooLowError{Seen: ids.MaxFence}}
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for i, c := range []struct {
			votes []node.Answer
			seen  int64
			again bool
		}{
			{[]node.Answer{s, s, s}, 7, true},
			{[]node.Answer{s, s, g}, 7, true},
			{[]node.Answer{s, e, g}, 7, true},
			{[]node.Answer{e, s, e}, 7, false},
			{[]node.Answer{r, s, r}, 7, false},
			{[]node.Answer{e, e, g}, 0, false},
			{[]node.Answer{s, g, g}, 7, false},
			{[]node.Answer{s, s, top}, 7, true},
			{[]node.Answer{s, top, g}, 7, true},
			{[]node.Answer{s, top, e}, 7, false},
			{[]node.Answer{top, top, top}, 0, false},
		} {
			var claim Claim
			claim.Init("", []string{"k"}, "t", "")
			claim.Fence(5, 5)
			a := m.newAttempt(&claim, node.Acquire, time.Minute, time.Second, time.Second)
			for i, v := range c.votes {
				a.addVote(i, v)
			}
			seen, again := a.FenceTooLow()
			require.Equal(t, []any{c.seen, c.again}, []any{seen, again}, i)
		}
	})
}
