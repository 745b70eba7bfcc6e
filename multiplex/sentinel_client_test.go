package multiplex

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/preflight"
	"github.com/lockpipe/lockpipe/internal/sentinel"
	"github.com/stretchr/testify/require"
)

// The goal: if the sentinels name no master, Inspect says why, with what to do and within its
// limit.
func TestSentinel_InspectSaysWhyNoMasterIsNamed(t *testing.T) {
	for says, change := range map[string]func(o *fakeSentinel){
		"connection refused": func(o *fakeSentinel) { o.dead = true },
		"no answer in time":  func(o *fakeSentinel) { o.mute = true },
		"WRONGPASS s3...: correct sen": func(o *fakeSentinel) {
			o.says = "-WRONGPASS s3s3cret\r\n"
		},
	} {
		w := newWatchedMaster("old")
		for _, o := range w.sentinels {
			change(o)
		}
		synctest.Test(t, func(t *testing.T) {
			m := start(t, []string{watchedURL + "&sentinel_password=s3cret"},
				func(c *Config) { c.Dial = w.dial })
			for range 2 {
				began := time.Now()
				all, err := inspector(t, m).Ask(t.Context())
				require.NoError(t, err)
				require.ErrorContains(t, all[0].Err, "no sentinel names the master: sentinel "+
					"s0:26379: ")
				require.ErrorContains(t, all[0].Err, says)
				require.NotContains(t, fmt.Sprintf("%+v", all), "s3cret")
				require.Less(t, time.Since(began), endpoint.DialTimeout+preflight.AfterConnect)
			}
			closes(t, m)
		})
	}
}

// The goal: each reason why the sentinels name no master is in the status, with the sentinel and
// what to do. The password of the sentinels is not.
func TestSentinel_AnErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	echo := "-ERR unknown command 'SENTINEL', with args beginning with: 's3cret' \r\n"
	for says, change := range map[string]func(o *fakeSentinel){
		"connection refused": func(o *fakeSentinel) { o.dead = true },
		"no answer in time":  func(o *fakeSentinel) { o.mute = true },
		`knows no master set "mymaster": correct master_set`: func(o *fakeSentinel) {
			o.master = ""
		},
		"NOAUTH Authentication required.: put sentinel_password": func(o *fakeSentinel) {
			o.says = "-NOAUTH Authentication required.\r\n"
		},
		"WRONGPASS s3...: correct sentinel_user and sentinel_password": func(o *fakeSentinel) {
			o.says = "-WRONGPASS s3s3cret\r\n"
		},
		"NOPERM no: give the user at the sentinels +sentinel|get-master-addr-by-name and": func(
			o *fakeSentinel,
		) {
			o.says = "-NOPERM no\r\n"
		},
		"it is no sentinel; give the address of one": func(o *fakeSentinel) { o.says = echo },
		"does not reply as a Redis server does": func(o *fakeSentinel) {
			o.says = "*1\r\n+x\r\n"
		},
	} {
		t.Run(says, func(t *testing.T) {
			w := newWatchedMaster("old")
			for _, o := range w.sentinels {
				change(o)
			}
			synctest.Test(t, func(t *testing.T) {
				var log journal
				m := start(t, []string{watchedURL + "&sentinel_user=u&sentinel_password=s3cret"},
					func(c *Config) {
						c.Dial, c.Logger = w.dial, slog.New(slog.NewTextHandler(&log, nil))
					})
				time.Sleep(time.Minute)
				status := m.Nodes()[0]
				require.Equal(t, link.Down, status.State)
				for i := range w.sentinels {
					require.ErrorContains(t, status.Err, fmt.Sprintf("sentinel s%d:26379", i))
				}
				require.ErrorContains(t, status.Err, says)
				require.Zero(t, w.dials["old"].Load())
				failed := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
				require.NotContains(t, fmt.Sprintf("%v %+v %v", failed, status, log.String()),
					"s3cret")
				require.LessOrEqual(t, strings.Count(log.String(), "node is down"), 3)
				closes(t, m)
			})
		})
	}
}

// The goal: a sentinel whose user may not ask for the epoch leads nowhere, and the status says
// which right is missing. Without epochs a sentinel that was cut off would keep the client on an
// old master.
func TestSentinel_TheEpochHasToBeAllowed(t *testing.T) {
	w := newWatchedMaster("old")
	for _, o := range w.sentinels {
		o.secretive = true
	}
	withWatchedMaster(t, w, func(t *testing.T, m *Mux) {
		synctest.Wait()
		status := m.Nodes()[0]
		require.Equal(t, link.Down, status.State)
		require.ErrorContains(t, status.Err, "sentinel s2:26379: NOPERM no: give the user at the "+
			"sentinels +sentinel|get-master-addr-by-name and +sentinel|master")
		w.sentinels[1].change(func(o *fakeSentinel) { o.secretive = false })
		time.Sleep(endpoint.AskEvery)
		settled(t, m)
	})
}

// The goal: one sentinel that answers is enough, whichever it is and whatever the others do, and
// the user and password for them are those of the URL.
func TestSentinel_OneThatAnswersIsEnough(t *testing.T) {
	for i := range 3 {
		w := newWatchedMaster("old")
		w.sentinels[(i+1)%3].mute = true
		w.sentinels[(i+2)%3].dead = true
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			m := start(t, []string{watchedURL + "&sentinel_user=u&sentinel_password=s3cret"},
				func(c *Config) {
					c.Dial = w.dial
				})
			require.NoError(t, m.nodes[0].Link.AwaitConnected(t.Context()))
			require.LessOrEqual(t, time.Since(begin), sentinel.Grace)
			require.Equal(t, []string{"u", "s3cret"}, w.sentinels[i].auth)
			closes(t, m)
		})
	}
}

// The goal: if a Config.Dial to a sentinel ignores its context, the others are asked, and Close
// does not wait.
func TestSentinel_AStuckDialHoldsUpNobody(t *testing.T) {
	w := newWatchedMaster("old")
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{next: make(chan net.Conn)}
		defer close(s.next)
		m := start(t, []string{watchedURL}, func(c *Config) {
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "s1") {
					return s.dial(ctx, network, address)
				}
				return w.dial(ctx, network, address)
			}
		})
		settled(t, m)
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, s.calls.Load())
		require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
	})
}
