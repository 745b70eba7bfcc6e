package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Goal: a URL that can't be used is refused, and no error shows a password, also if the URL is
// malformed, or a comma in the password cuts it.
func TestParse_ErrorsNeverShowAPassword(t *testing.T) {
	for _, text := range []string{
		"", "redis://", "http://canary:secret@h", "redis://canary:secret@h:port",
		"redis://:sec/ret@h", "unix://canary:secret@", "redis://canary:secret@h/first",
		"redis://canary:secret@h/-1", "redis://canary:12/secret@h", "%zz:secret@h",
		"http://canary:secret@h:1", "redis://h?db=secret@",
		"redis://canary:secret,x@h", "redis://:x,secret://@h", "redis://:secret,a://b@h",
		"redis://:secret,redis://x@h", "redis://:x?secret,x@h", "redis://:x@y:secret,x@h",
		"redis://:x,y?secret,x@h", "redis://:x,y@secret:port,x@h", "redis://:x, redis,secret:p@h",
	} {
		for _, text := range []string{text, "good:1," + text} {
			_, err := Parse(text)
			require.Error(t, err, text)
			require.NotContains(t, err.Error(), "secret", text)
			require.NotContains(t, err.Error(), "sec/ret", text)
			require.NotContains(t, err.Error(), "canary", text)
		}
	}
}

// Goal: the error of a URL that no Client takes says why, also in a list.
func TestParse_ErrorsSayWhatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		"a:1,ftp://b": `"entry 2": has the scheme ftp`,
		"redis://canary:secret@a,redis://:secret@b:port": `"entry 2": is not a URL`,
		"redis://a?read_timeout=1s":                      `its parameter number 1 is unknown`,
		"redis://:x,secret@h":                            "%2C for one in a password",
		"h:6380,password=secret,ssl=True":                `"entry 2": is not usable`,
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, says, text)
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

// opened opens the nodes of a text, for this test.
func opened(t *testing.T, text string) *Nodes {
	t.Helper()
	plan, err := Parse(text)
	require.NoError(t, err)
	n, err := plan.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// Goal: whoever has no redis-server is told that the nodes are none, why, and how to get some.
// Whoever asked for nodes in this process is told so. Nothing is said of servers.
func TestNote_SaysWhatNodesInThisProcessAre(t *testing.T) {
	const what = "The nodes are in the memory of this process"
	require.Empty(t, opened(t, "127.0.0.1:1").Note())
	note := opened(t, "inprocess:2").Note()
	require.Contains(t, note, what)
	require.Contains(t, note, "as inprocess:2 asks. For real servers give local:2,")
	require.NotContains(t, note, "install")

	t.Setenv("LOCKPIPE_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	note = opened(t, "local:1").Note()
	require.Contains(t, note, what)
	require.Contains(t, note, "no redis-server is on the PATH. For real servers install one "+
		"(apt-get install redis-server,")
	require.Contains(t, note, "-nodes")
}

// Goal: nothing is said of redis-servers that were started.
func TestNote_NothingOfRealServers(t *testing.T) {
	lockpipetest.RequireRedis(t)
	require.Empty(t, opened(t, "local:1").Note())
}

// Goal: nodes that are there already are used as they are, and shown without what may be secret.
func TestOpen_LeavesExternalNodesAlone(t *testing.T) {
	plan, err := Parse("redis://user:secret@a:1,b:2?db=1")
	require.NoError(t, err)
	require.Equal(t, 2, plan.Size())
	n, err := plan.Open()
	require.NoError(t, err)
	require.Equal(t, "external", n.Backend())
	require.Nil(t, n.Started)
	require.Equal(t, "redis://***@a:1,b:2?***", n.Redacted())
	require.NoError(t, n.Close())
}
