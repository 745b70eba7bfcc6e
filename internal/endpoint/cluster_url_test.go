package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: one URL stands for the nodes of a cluster. They differ in nothing but the slot.
func TestCluster_OneURLIsSeveralNodes(t *testing.T) {
	for text, n := range map[string]int{
		"redis://u:p@CFG?cluster&addr=b:2":   3,
		"cfg?addr=b:2&cluster=":              3,
		"rediss://cfg:6379?cluster=5&addr=b": 5,
		"valkeys://cfg?cluster=1&addr=[::1]": 1,
	} {
		entry, err := Parse(text, nil, 0)
		require.NoError(t, err, text)
		require.Len(t, entry.Nodes(), n, text)
		for i, e := range entry.Nodes() {
			require.Equal(t, []any{n, slotOf(i, n), tagOf(e.Slot)}, []any{e.Cluster, e.Slot, e.Tag})
			require.Equal(t, "cfg:6379", e.Sentinels[0].Address)
			require.Equal(t, e.MasterSet+"@cfg:6379", e.Name)
			require.Len(t, e.Identities(), 2)
			require.Equal(t, e.TLS == nil, e.Sentinels[0].TLS == nil)
		}
	}
	for _, text := range []string{
		"redis://a?db=1", "redis://b?client_name=cluster", "unix:///cluster",
	} {
		entry, err := Parse(text, nil, 0)
		require.NoError(t, err)
		require.Equal(t, []*Endpoint{entry}, entry.Nodes())
	}
}

// The goal: what can't be a cluster is refused, with what to do.
func TestCluster_WrongURLs(t *testing.T) {
	for text, says := range map[string]string{
		"redis://a?cluster=2":                "cluster is not an odd number from 1 to 15: give cluster=3",
		"redis://a?cluster=17":               "cluster is not an odd number",
		"redis://a?cluster=-1":               "cluster is not an odd number",
		"redis://a?cluster=canary":           "cluster is not an odd number",
		"redis://a?cluster=0of3":             "cluster is not an odd number",
		"redis://a?cluster&addr=a:6379":      "it names a server twice",
		"redis://a?cluster&addr=a:0":         "the port of a server",
		"redis://a/2?cluster":                "only the database 0",
		"redis://a?cluster&master_set=m":     "it has cluster and master_set",
		"redis://a?cluster&sentinel_user=u":  "sentinel_user is for a master by Sentinel",
		"unix:///a?cluster":                  "cluster is for redis:// or rediss://",
		"redis://u:canary@a?cluster&cluster": "cluster",
	} {
		_, err := Parse(text, nil, 0)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "canary")
	}
}
