package nodes

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// bySentinel is the URL of a master that sentinels watch.
func bySentinel(r *lockpipetest.Replicated) string {
	addrs := r.Sentinels()
	return "redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=") +
		"&master_set=" + r.MasterSet()
}

// The goal: when the master of one node is another one, by its death or as planned, a second caller
// is granted a key with the new master only after the first lease is over. The first lease is on
// the old master and on a node that the second caller can't reach, so nothing else excludes the
// two.
func TestSentinel_AFailoverGrantsNothingTwice(t *testing.T) {
	kit.SkipIfShort(t, "failovers by sentinels")
	t.Parallel()
	for name, failover := range map[string]func(r *lockpipetest.Replicated) error{
		"the master is killed": (*lockpipetest.Replicated).KillMaster,
		"it is planned":        (*lockpipetest.Replicated).Failover,
		"it is planned, and the old master frozen": func(r *lockpipetest.Replicated) error {
			return errors.Join(r.Servers().Freeze(0), r.Failover())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 5 * time.Second
			r, plain := lockpipetest.StartReplicatedT(t), servertest.Start(t, 2)
			urls := append(plain.URLs(), bySentinel(r))
			client := func(dial func(context.Context, string, string) (net.Conn,
				error),
			) *lockpipe.Client {
				cfg := kit.Config(urls, nil)
				cfg.MaxTTL, cfg.TTL, cfg.NodeTimeout, cfg.Dial = ttl, ttl, ttl/2, dial
				c, err := lockpipe.New(cfg)
				require.NoError(t, err)
				t.Cleanup(func() { kit.CloseSoon(c) })
				return c
			}
			other := kit.Connected(t, client(nil))
			require.Equal(t, r.MasterSet()+"@"+r.Sentinels()[0], other.Nodes()[2].Addr)
			holder := client(func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == kit.Address(plain, 1) {
					return nil, errors.New("out of reach")
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			})
			kit.Eventually(t, func() bool {
				return holder.Nodes()[0].State == lockpipe.NodeUp &&
					holder.Nodes()[2].State == lockpipe.NodeUp
			}, "the holder is not connected")
			first := kit.Take(t, holder, "k")
			require.NoError(t, plain.Freeze(0))
			require.NoError(t, failover(r))
			second := kit.Take(t, other, "k")
			require.Error(t, first.Err(), "two hold the key")
			require.NotEqual(t, first.Token(), second.Token())
			marker, err := r.Servers().Do(1, "GET", kit.Prefix+"lockpipe:admitted")
			require.NoError(t, err)
			info, err := r.Servers().Do(1, "INFO", "server")
			require.NoError(t, err)
			name, _, _ := strings.Cut(marker.(string), ".") // a server that was a replica
			require.Contains(t, info, "run_id:"+name, "the new master was not admitted")
			require.NoError(t, plain.Thaw(0))
		})
	}
}
