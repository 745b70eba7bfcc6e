package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: a URL that can't be used is refused, and no error shows a password, also if the URL is
// malformed.
func TestParse_ErrorsNeverShowAPassword(t *testing.T) {
	for _, text := range []string{
		"", "redis://", "http://user:secret@h", "redis://user:secret@h:port", "redis://:sec/ret@h",
		"unix://user:secret@",
		"redis://user:secret@h/first", "redis://user:secret@h/-1", "redis://user:12/secret@h",
		"%zz:secret@h",
	} {
		_, err := Parse("good:1," + text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret", text)
		require.NotContains(t, err.Error(), "sec/ret", text)
		require.NotContains(t, err.Error(), "user", text)
	}
}

// Goal: a report names external nodes by their addresses only.
func TestPlan_IsShownWithoutPasswords(t *testing.T) {
	plan, err := Parse("redis://user:secret@a:1, b:2,unix:///c.sock")
	require.NoError(t, err)
	require.Equal(t, "a:1,b:2,/c.sock", plan.String())
	for _, text := range []string{"local:5", "inprocess:3"} {
		plan, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, text, plan.String())
	}
}

// Goal: nodes that a text asks for are started, and only redis-servers can have faults.
func TestOpen_StartsNodes(t *testing.T) {
	plan, err := Parse("inprocess:2")
	require.NoError(t, err)
	require.Equal(t, 2, plan.Size())
	require.False(t, plan.StartsServers())
	n, err := plan.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	require.Equal(t, "in-process", n.Backend())
	require.Len(t, n.URLs, 2)
	require.Len(t, n.Endpoints, 2)
}

// Goal: nodes that are there already are used as they are, and shown without what may be secret.
func TestOpen_LeavesExternalNodesAlone(t *testing.T) {
	plan, err := Parse("redis://user:secret@a:1,b:2?x=1")
	require.NoError(t, err)
	require.Equal(t, 2, plan.Size())
	n, err := plan.Open()
	require.NoError(t, err)
	require.Equal(t, "external", n.Backend())
	require.Nil(t, n.Started)
	require.Equal(t, "redis://***@a:1,b:2?***", n.Redacted())
	require.NoError(t, n.Close())
}
