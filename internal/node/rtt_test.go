package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: if no flush since the connect was quick, a flush of few keys leaves while another is
// under way. One quick flush is enough to change that, and slow ones behind it change nothing.
func TestRTT_OnlyAFarNodeOverlapsSmallFlushes(t *testing.T) {
	var d rtt
	require.Equal(t, nearThreshold, d.overlapThreshold(), "nothing is known yet")
	d.observe(3 * time.Millisecond)
	require.Equal(t, farThreshold, d.overlapThreshold())
	d.observe(farRTT)
	require.Equal(t, farThreshold, d.overlapThreshold())
	d.observe(farRTT - 1)
	require.Equal(t, nearThreshold, d.overlapThreshold())
	d.observe(time.Second)
	require.Equal(t, nearThreshold, d.overlapThreshold())
	d.reset()
	d.observe(time.Second)
	require.Equal(t, farThreshold, d.overlapThreshold(), "another connection may have another way")
}
