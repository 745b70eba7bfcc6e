package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/stretchr/testify/require"
)

// The goal: if no flush since the connect was quick, a flush of few keys leaves while another is
// under way. One quick flush is enough to change that, and slow ones behind it change nothing.
func TestRTT_OnlyAFarNodeOverlapsSmallFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		require.Equal(t, nearThreshold, n.OverlapThreshold(), "nothing is known yet")
		for _, step := range []struct {
			took time.Duration
			want int
		}{
			{3 * time.Millisecond, farThreshold},
			{farTrip, farThreshold},
			{farTrip - 1, nearThreshold},
			{time.Second, nearThreshold},
		} {
			n.noteSent(time.Now())
			time.Sleep(step.took)
			n.noteAnswered(&Flush{Answers: []Answer{{Replied: true}}})
			require.Equal(t, step.want, n.OverlapThreshold())
		}
		n.StateChanged(link.Down, link.Up)
		n.noteSent(time.Now())
		time.Sleep(time.Second)
		n.noteAnswered(&Flush{Answers: []Answer{{Replied: true}}})
		require.Equal(t, farThreshold, n.OverlapThreshold(), "it may be another way now")
	})
}
