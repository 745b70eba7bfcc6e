package multiplex

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a URL by Sentinel has the sentinels' addresses, with their usual port, and the name.
func TestSentinel_URLs(t *testing.T) {
	for text, want := range map[string][]string{
		"redis://S1?master_set=m": {"m@s1:26379", "s1:26379"},
		"s1:1?master_set=m&addr=s2&addr=[::1]:3": {
			"m@s1:1", "s1:1", "s2:26379",
			"[::1]:3",
		},
		"redis://u:p@[::1]/2?addr=s2:1&db=3&master_set=My.set_": {
			"My.set_@[::1]:26379",
			"[::1]:26379", "s2:1",
		},
	} {
		e, err := parse(text, nil)
		require.NoError(t, err, text)
		require.Equal(t, want[0], e.name)
		require.Empty(t, e.option.Sentinel.MasterSet, "rueidis would ask them too")
		require.Len(t, e.option.InitAddress, 1)
		for i, s := range e.sentinels {
			require.Equal(t, want[1+i], s.address)
			require.Empty(t, s.option.Username+s.option.Password, "these are the master's")
		}
	}
	for text, says := range map[string]string{
		"redis://s1?addr=s2": "addr is for a master by Sentinel: give redis:// or rediss://, " +
			"the address",
		"redis://s1?sentinel_password=canary": "sentinel_password is for a " +
			"master by Sentinel",
		"unix:///s?master_set=m": "master_set is for a master " +
			"by Sentinel",
		"redis://s1?master_set=":                  "master_set has to be a name",
		"redis://s1?master_set=a%20b":             "master_set has to be a name",
		"redis://s1?master_set=m&addr=s1:26379":   "it names the sentinel s1:26379 twice",
		"redis://s1?master_set=m&addr=canary@x":   "percent-escaped",
		"redis://s1?master_set=m&addr=a,b":        "addr has to be host:port",
		"redis://s1?master_set=m&addr=a:0":        "the port of a sentinel",
		"redis://s1?master_set=m&sentinel_user=u": "sentinel_password is missing",
		"redis://s1?master_set=m&sentinel_tls": "sentinel_tls needs a master " +
			"with TLS",
		"rediss://s1?master_set=m&sentinel_tls=perhaps":           "sentinel_tls is neither true nor false",
		"redis://s1?master_set=m&sentinel_password=a+canary":      "+ that is not written as %2B",
		"redis://s1?master_set=m&sentinel_password=a&canary=1":    "write & as %26",
		"redis://s1?master_set=m&sentinel_password=a;canary":      "% or ; that is not written",
		"redis://s1?master_set=m&sentinel_password=a%xcanary":     "% or ; that is not written",
		"redis://s1?master_set=m&sentinel_password=a#canary":      "# that is not written as %23",
		"redis://u:canary@s1:x?master_set=m&sentinel_password=ca": "details are left out",
	} {
		_, err := parse(text, nil)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "canary", text)
	}
}

// The goal: TLS is for the server that is dialled, which is not the sentinel of the URL. Sentinels
// have it only if the URL says so.
func TestSentinel_TLSIsForTheServerThatIsDialled(t *testing.T) {
	const master, set = "10.0.0.7:6379", "?addr=s2&master_set=m&skip_verify"
	for text, want := range map[string]struct {
		config    *tls.Config
		sentinels bool
		name      string
	}{
		"redis://s1" + set:                      {&tls.Config{}, false, ""},
		"rediss://s1" + set:                     {nil, false, "10.0.0.7"},
		"s1" + set + "&sentinel_tls":            {&tls.Config{}, true, "10.0.0.7"},
		"rediss://s1" + set + "&sentinel_tls=1": {nil, true, "10.0.0.7"},
		"rediss://s1" + set + "&sentinel_tls=0": {&tls.Config{ServerName: "n"}, false, "n"},
	} {
		e, err := parse(text, want.config)
		require.NoError(t, err, text)
		secure := e.withAddress(master).option.TLSConfig
		require.Equal(t, want.name != "", secure != nil, text)
		if secure != nil {
			require.Equal(t, want.name, secure.ServerName, text)
		}
		for i, s := range e.sentinels {
			require.Equal(t, want.sentinels, s.option.TLSConfig != nil, text)
			if want.sentinels {
				require.Equal(t, fmt.Sprintf("s%d", i+1), s.option.TLSConfig.ServerName, text)
			}
		}
	}
}

// The goal: two nodes that share a sentinel and the name are one master; others are two.
func TestSentinel_OneMasterIsOneNode(t *testing.T) {
	const first = "redis://s1?addr=s2&master_set=m"
	_, err := New(Config{Nodes: []string{first, "redis://s2?addr=s3&master_set=m"}})
	require.ErrorContains(t, err, "[1] is the same master as Nodes[0] (m@s2:26379): list each once")
	start(t, []string{first, "redis://s1?addr=s2&master_set=n", "redis://s3?master_set=m"}, nil)
}
