package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/stretchr/testify/require"
)

// fixture is a cluster that is not asked, with one slot.
func fixture(t *testing.T, secure bool) (*Cluster, *Slot, *endpoint.Endpoint) {
	t.Helper()
	entry, err := endpoint.Parse("redis://cfg:1?cluster", nil, 0)
	require.NoError(t, err)
	e := entry.Nodes()[0]
	if secure {
		e.TLS = new(tls.Config)
	}
	s := new(Clusters).Slot(endpoint.NewLogins(e, nil, nil), nil, nil)
	s.cluster.clock = lease.NewClock(nil)
	return s.cluster, s, &e.Sentinels[0]
}

// The goal: the owner of the slot is read from what servers of all versions say.
func TestReport_OfServersOfAllVersions(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		secure bool
		want   owner
	}{
		"Redis 6.2": {
			"a 10.0.0.1:7@17 myself,master - 0 0 1 connected 0-100 2730 [9-<-b]\n" +
				"b 10.0.0.2:7@17 slave a 0 0 1 connected\n", false, owner{"a", "10.0.0.1:7", 1},
		},
		"a name, and TLS": {
			"a 10.0.0.1:7@17,N1.Example master - 0 0 9 connected 0-16383\n" +
				"b 10.0.0.2:7@17,n2 myself,slave a 0 0 9 connected\n", true,
			owner{"a", "n1.example:7", 9},
		},
		"a name, without TLS": {
			"a 10.0.0.1:7@17,n1 myself,master - 0 0 9 connected 2730-2730\n", false,
			owner{"a", "10.0.0.1:7", 9},
		},
		"no address of its own yet": {
			"a :7@17 myself,master - 0 0 0 connected 0-16383\n", false, owner{"a", "cfg:7", 0},
		},
		"IPv6 and Redis 7.2": {
			"a ::1:7@17,,tls-port=0,shard-id=x myself,master - 0 0 3 connected 0-16383\n", true,
			owner{"a", "[::1]:7", 3},
		},
		"an owner that failed": {
			"a :0@0 master,fail,noaddr - 0 0 3 disconnected 0-16383\n" +
				"b 10.0.0.2:7@17 myself,slave a 0 0 3 connected\n", false, owner{"a", "", 3},
		},
		"no owner, a move, and a server that is being met": {
			"a h:7@17 myself,master - 0 0 3 connected 0-2729 [2730->-b] 2731-16383\n" +
				"x h:8@18 handshake - 0 0 0 disconnected\n", false, owner{},
		},
	} {
		cluster, _, from := fixture(t, c.secure)
		if c.secure {
			from.TLS = new(tls.Config)
		}
		r, err := cluster.parse(c.text, from)
		require.NoError(t, err, name)
		require.Equal(t, c.want, r.owners[0], name)
		require.NotContains(t, r.ids, "x")
	}
	for _, text := range []string{
		"", "OK", "a h:7@17 master - 0 0 3 connected 0\n",
		"a h:7@17 myself,master - 0 0 x connected 0\n",
	} {
		cluster, _, from := fixture(t, false)
		_, err := cluster.parse(text, from)
		require.Error(t, err, text)
	}
}

// The goal: the server in use may be asked for votes while more than half of all servers that the
// cluster knows, replicas too, have named it within three seconds. It is left at once when one of
// them names another server with a higher epoch.
func TestSlot_AMajorityOfAllServersHasToNameTheOwner(t *testing.T) {
	const old, late = -ConfirmedFor, -ConfirmedFor + time.Millisecond
	for name, c := range map[string]struct {
		says      map[int]string // "server epoch", by the number of the server that says so
		at        map[int]time.Duration
		confirmed bool
		leaves    bool
	}{
		"more than half": {
			says: map[int]string{1: "A 1", 2: "A 1", 3: "A 1", 4: "A 1"}, confirmed: true,
		},
		"half": {says: map[int]string{1: "A 1", 2: "A 1", 3: "A 1"}, leaves: true},
		"none": {leaves: true},
		"other epochs": {
			says: map[int]string{1: "A 1", 2: "A 1", 3: "A 2", 6: "A 1"}, confirmed: true,
		},
		"one too old": {
			says: map[int]string{1: "A 1", 2: "A 1", 3: "A 1", 4: "A 1"},
			at:   map[int]time.Duration{2: old}, leaves: true,
		},
		"one is nearly too old": {
			says: map[int]string{1: "A 1", 2: "A 1", 3: "A 1", 4: "A 1"},
			at:   map[int]time.Duration{2: late}, confirmed: true,
		},
		"one knows a newer owner": {
			says: map[int]string{1: "A 1", 2: "A 1", 3: "A 1", 4: "A 1", 5: "B 2"}, leaves: true,
		},
		"one knows an older owner": {
			says:      map[int]string{1: "A 3", 2: "A 3", 3: "A 3", 4: "A 3", 5: "B 2"},
			confirmed: true,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster, s, _ := fixture(t, false)
			time.Sleep(time.Hour)
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			s.using = "A:1"
			for who, text := range c.says {
				r := report{
					id: fmt.Sprint(who), ids: []string{"1", "2", "3", "4", "5", "6"},
					at: cluster.now() + c.at[who], owners: make([]owner, 1),
				}
				o := &r.owners[0]
				_, err := fmt.Sscan(text, &o.id, &o.epoch)
				require.NoError(t, err)
				o.address = o.id + ":1"
				cluster.takeReport(new(server), 0, r, nil)
			}
			require.Equal(t, c.confirmed, s.Confirmed(), name)
			s.leave = leave
			cluster.takeReport(new(server), 0, report{}, errors.New("refused"))
			require.Equal(t, c.leaves, ctx.Err() != nil, name)
			if c.leaves && len(c.says) == 5 {
				require.ErrorContains(t, context.Cause(ctx), "names B:1 as the owner of slot 2730")
			}
			time.Sleep(ConfirmedFor)
			require.False(t, s.Confirmed(), name)
		})
	}
}
