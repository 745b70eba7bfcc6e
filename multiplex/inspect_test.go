package multiplex

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a real server's answers come through: who it is, its settings, and its time, which is that of this machine.
func TestInspectReadsARealServer(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 2)
	for _, setting := range [][2]string{{"save", "3600 1"}, {"appendfsync", "always"}, {"no-appendfsync-on-rewrite", "yes"}} {
		_, err := nodes.Do(1, "CONFIG", "SET", setting[0], setting[1])
		require.NoError(t, err)
	}
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	all, err := m.Inspect(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	for i, f := range all {
		require.NoError(t, f.Err)
		require.Empty(t, f.Refused)
		require.Equal(t, m.Nodes()[i].Addr, f.Node)
		require.NotEmpty(t, f.Server)
		require.NotEmpty(t, f.Version)
		require.Len(t, f.RunID, 40)
		require.Len(t, f.DataSet, 40)
		require.Equal(t, "noeviction", f.Policy)
		require.Positive(t, f.Memory)
		require.Positive(t, f.Clients)
		require.False(t, f.Replica || f.Cluster || f.Loading || f.AOF || f.Unwritten)
		last := len(f.Samples) - 1
		require.Positive(t, last)
		require.GreaterOrEqual(t, f.Samples[last].Received.Sub(f.Samples[0].Sent), sampleSpan)
		for _, s := range f.Samples {
			require.WithinRange(t, s.Server, s.Sent.Round(0).Add(-time.Minute), s.Received.Round(0).Add(time.Minute))
		}
	}
	require.NotEqual(t, all[0].RunID, all[1].RunID)
	require.NotEqual(t, all[0].DataSet, all[1].DataSet)
	require.Empty(t, all[0].Snapshots)
	require.Equal(t, "3600 1", all[1].Snapshots)
	require.Equal(t, "always", all[1].Fsync)
	require.True(t, all[1].Rewriting)
	require.False(t, all[0].Rewriting)
	require.Equal(t, 1, others(t, nodes, 0), "on the usual connection")
}

// The goal: commands that the server refuses are told, once each, without the password, and the round trips are measured all the same.
func TestInspectTellsWhatIsRefused(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	_, err := nodes.Do(0, "ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", "-info", "-config", "-time")
	require.NoError(t, err)
	m := start(t, []string{"redis://me:secret@" + nodes.URLs()[0][len("redis://"):]}, func(c *Config) { c.Guard = GuardOff })
	up(t, m)
	all, err := m.Inspect(t.Context())
	require.NoError(t, err)
	f := all[0]
	require.NoError(t, f.Err)
	require.Len(t, f.Refused, 3)
	for i, command := range []string{"INFO", "CONFIG GET", "TIME"} {
		require.Equal(t, command, f.Refused[i].Command)
		require.Contains(t, f.Refused[i].Text, "NOPERM")
	}
	require.Empty(t, f.Version)
	require.NotEmpty(t, f.Samples)
	for _, s := range f.Samples {
		require.True(t, s.Server.IsZero())
		require.Positive(t, s.RoundTrip())
	}
}

// The goal: a node that was stopped is given up, and it alone; afterwards it can be looked at again.
func TestInspectGivesUpAStoppedNode(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	_, err := m.Inspect(t.Context())
	require.NoError(t, err)
	require.NoError(t, nodes.Freeze(1))
	all, err := m.Inspect(t.Context())
	require.NoError(t, err)
	require.NoError(t, all[0].Err)
	require.Error(t, all[1].Err)
	require.NoError(t, all[2].Err)
	require.NoError(t, nodes.Thaw(1))
	up(t, m)
	all, err = m.Inspect(t.Context())
	require.NoError(t, err)
	require.NoError(t, all[1].Err)
}

// The goal: after Close Inspect says so, and asks nobody.
func TestInspectOfAClosedMux(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	require.NoError(t, m.Close(t.Context()))
	all, err := m.Inspect(t.Context())
	require.Equal(t, ErrClosed, err)
	require.Nil(t, all)
}
