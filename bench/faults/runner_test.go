package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

// Goal: a fault that can't happen is reported with its error, and later faults still happen.
func TestRunner_AFaultThatFailsIsReported(t *testing.T) {
	nodes := servertest.Start(t, 1)
	require.NoError(t, nodes.Kill(0))
	r := &runner{start: time.Now()}
	r.runFaults(t.Context(), &target{nodes: nodes}, []Fault{
		{freeze, 1, 0, time.Millisecond},
		{restart, 1, 0, 0},
	})
	require.Len(t, r.errs, 1)
	require.ErrorContains(t, r.errs[0], "fault freeze:1@0s+1ms: lockpipetest: freeze node 0: "+
		"node is not running")
	require.Len(t, r.results, 2)
	require.Contains(t, r.results[0].Error, "node is not running")
	require.Equal(t, "restart:1@0s", r.results[1].Fault)
	require.Empty(t, r.results[1].Error)
}
