package inspect_test

import (
	"context"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/inspect"
	"github.com/stretchr/testify/require"
)

// look inspects nodes.
func look(ctx context.Context, nodes string) (*inspect.Findings, error) {
	return inspect.Run(ctx, inspect.Config{Nodes: nodes})
}

// Goal: nodes can be started for it, and it reports what they are.
func TestInspect_StartsNodes(t *testing.T) {
	t.Parallel()
	f, err := look(t.Context(), "inprocess:4")
	require.NoError(t, err)
	require.Equal(t, "in-process", f.Backend)
	require.Equal(t, "inprocess:4", f.Nodes)
	require.Contains(t, f.NodesNote, "as inprocess:4 asks.")
	require.NotEmpty(t, f.Version)
	require.NotEmpty(t, f.Findings)
	require.NotEqual(t, lockpipe.SeverityError, f.Findings.Worst())
	require.True(t, f.Safe())
}

// Goal: nodes that are not there are a finding that is not safe, and no error.
func TestInspect_MissingNodesAreAFinding(t *testing.T) {
	t.Parallel()
	f, err := look(t.Context(), "redis://me:secret@127.0.0.1:1")
	require.NoError(t, err)
	require.False(t, f.Safe())
	require.Equal(t, "127.0.0.1:1", f.Nodes)
	require.Equal(t, "external", f.Backend)
	require.Empty(t, f.NodesNote)
}

// Goal: an interrupt ends it, and the field of a Config that can't be used is named.
func TestInspect_Errors(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	f, err := look(ctx, "inprocess:1")
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, f)
	var wrong *bench.ConfigError
	_, err = look(t.Context(), "local:none")
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Nodes", wrong.Field)
	_, err = look(t.Context(), "h:1,h:1")
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Nodes", wrong.Field)
}
