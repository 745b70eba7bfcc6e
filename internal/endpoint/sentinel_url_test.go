package endpoint

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
		"redis://u:p@[::1]?addr=s2:1&db=3&master_set=My.set_": {
			"My.set_@[::1]:26379",
			"[::1]:26379", "s2:1",
		},
	} {
		e, err := Parse(text, nil, 0)
		require.NoError(t, err, text)
		require.Equal(t, want[0], e.Name)
		for i, s := range e.Sentinels {
			require.Equal(t, want[1+i], s.Address)
			require.Empty(t, s.User+s.Password, "these are the master's")
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
		"redis://s1?master_set=m&addr=s1:26379":   "it names a sentinel twice",
		"redis://s1?master_set=m&addr=canary@x":   "percent-escaped",
		"redis://s1?master_set=m&addr=a,b":        "addr has to be host:port",
		"redis://s1?master_set=m&addr=a:0":        "the port of a sentinel",
		"redis://s1?master_set=m&sentinel_user=u": "sentinel_password is missing",
		"redis://s1?master_set=m&sentinel_tls": "sentinel_tls needs a master " +
			"with TLS",
		"rediss://s1?master_set=m&sentinel_tls=perhaps":           "sentinel_tls is neither true nor false",
		"redis://s1?master_set=m&sentinel_password=a+canary":      "+ that is not written as %2B",
		"redis://s1?master_set=m&sentinel_password=a&canary=1":    "an & in a password is written as %26",
		"redis://s1?master_set=m&sentinel_password=a;canary":      "% or ; that is not written",
		"redis://s1?master_set=m&sentinel_password=a%xcanary":     "% or ; that is not written",
		"redis://s1?master_set=m&sentinel_password=a#canary":      "# that is not written as %23",
		"redis://u:canary@s1:x?master_set=m&sentinel_password=ca": noPort,
	} {
		_, err := Parse(text, nil, 0)
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
		"valkey://s1" + set:                     {nil, false, ""},
		"rediss://s1" + set:                     {nil, false, "10.0.0.7"},
		"s1" + set + "&sentinel_tls":            {&tls.Config{}, true, "10.0.0.7"},
		"rediss://s1" + set + "&sentinel_tls=1": {nil, true, "10.0.0.7"},
		"rediss://s1" + set + "&sentinel_tls=0": {&tls.Config{ServerName: "n"}, false, "n"},
	} {
		e, err := Parse(text, want.config, 0)
		require.NoError(t, err, text)
		secure := e.WithAddress(master).TLS
		require.Equal(t, want.name != "", secure != nil, text)
		if secure != nil {
			require.Equal(t, want.name, secure.ServerName, text)
		}
		for i, s := range e.Sentinels {
			require.Equal(t, want.sentinels, s.TLS != nil, text)
			if want.sentinels {
				require.Equal(t, fmt.Sprintf("s%d", i+1), s.TLS.ServerName, text)
			}
		}
	}
}
