package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// oracle is a sentinel that tests play.
type oracle struct {
	mu     sync.Mutex // guards all below
	master string     // "" if it knows of none
	epoch  int
	dead   bool   // it refuses connections
	mute   bool   // it accepts them, and never answers
	says   string // in answer to everything; "" for the usual
	// secretive: its user may not ask for the epoch.
	secretive bool
	conns     map[net.Conn]bool // that are open
	asked     int               // questions for the master
	auth      []string          // the last AUTH
}

func (o *oracle) dial() (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	if o.conns == nil {
		o.conns = map[net.Conn]bool{}
	}
	o.conns[server] = true
	go o.serve(server)
	return client, nil
}

func (o *oracle) serve(conn net.Conn) {
	resptest.Serve(conn, o.answer)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

func (o *oracle) answer(words []string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	host, port, _ := net.SplitHostPort(o.master)
	switch {
	case o.mute:
		return ""
	case words[0] == "AUTH":
		o.auth = words[1:]
		if o.says == "" {
			return "+OK\r\n"
		}
		return o.says
	case o.says != "":
		return o.says
	case words[1] == "MASTER" && o.secretive:
		return "-NOPERM no\r\n"
	case words[1] == "MASTER" && o.master == "":
		return "-ERR No such master with that name\r\n"
	case words[1] == "MASTER":
		return resptest.Strings("flags", "master", "config-epoch", fmt.Sprint(o.epoch))
	case o.master == "":
		return "*-1\r\n"
	}
	o.asked++
	return resptest.Strings(host, port)
}

// tell changes what a sentinel does, and ends its connections if it is dead then.
func (o *oracle) tell(change func(o *oracle)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
	for conn := range o.conns {
		if o.dead {
			_ = conn.Close()
		}
	}
}

func (o *oracle) open() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns)
}

// watched is a network with three sentinels, s0 to s2, and the servers that they may name.
type watched struct {
	sentinels [3]*oracle
	servers   map[string]*actor // by host
	dials     map[string]*atomic.Int32
}

const watchedURL = "redis://s0:26379?addr=s1:26379&addr=s2:26379&master_set=mymaster"

func newWatched(servers ...string) *watched {
	w := &watched{servers: map[string]*actor{}, dials: map[string]*atomic.Int32{}}
	for i := range w.sentinels {
		w.sentinels[i] = &oracle{master: servers[0] + ":6379", epoch: 1}
	}
	for _, host := range servers {
		w.servers[host], w.dials[host] = &actor{}, new(atomic.Int32)
	}
	return w
}

func (w *watched) dial(_ context.Context, _, address string) (net.Conn, error) {
	for i, o := range w.sentinels {
		if address == fmt.Sprintf("s%d:26379", i) {
			return o.dial()
		}
	}
	host, _, _ := net.SplitHostPort(address)
	if a := w.servers[host]; a != nil {
		w.dials[host].Add(1)
		return a.dial(), nil
	}
	return nil, fmt.Errorf("nobody at %s", address)
}

// promote lets these sentinels name another master, in a later epoch.
func (w *watched) promote(host string, which ...int) {
	for _, i := range which {
		w.sentinels[i].tell(func(o *oracle) { o.master, o.epoch = host+":6379", o.epoch+1 })
	}
}

// durableInfo is what INFO shows of a server with an append-only file.
const durableInfo = "aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n" +
	"aof_last_rewrite_time_sec:-1\r\n"

// isKnown lets a server show a run_id, and that as its marker.
func isKnown(a *actor, digit, more string) {
	info := "run_id:" + run(digit) + "\r\nuptime_in_seconds:1\r\nrole:master\r\n" +
		"master_replid2:0000000000000000000000000000000000000000\r\n" + more
	a.play(map[string]string{"INFO": resptest.Bulk(info), "GET": resptest.Bulk(run(digit))})
}

// inWatched runs a test in a bubble with one node by Sentinel.
func inWatched(t *testing.T, w *watched, test func(t *testing.T, m *Mux), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := start(t, []string{watchedURL}, func(c *Config) {
			c.Dial = w.dial
			for _, f := range change {
				f(c)
			}
		})
		test(t, m)
		require.NoError(t, m.Close(t.Context()))
		synctest.Wait()
		for i, o := range w.sentinels {
			require.Zero(t, o.open(), "sentinel %d", i)
		}
	})
}

// settled waits until the node is up, and the bubble at rest.
func settled(t *testing.T, m *Mux) {
	t.Helper()
	synctest.Wait() // the keeper may not know yet that its line is lost
	up(t, m)
	synctest.Wait()
}

func (w *watched) server(m *Mux) string {
	host, _, _ := net.SplitHostPort(m.nodes[0].line.Load().address)
	return host
}

// The goal: the node is the server that the sentinels name, over one connection to each sentinel.
// The node goes over to another one within a second after they name that, and the old line is void.
func TestSentinel_TheNodeIsTheMaster(t *testing.T) {
	w := newWatched("old", "new")
	inWatched(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		require.Equal(t, "mymaster@s0:26379", m.Nodes()[0].Addr)
		require.Equal(t, "old", w.server(m))
		before := m.nodes[0].sending()
		require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, w.dials["old"].Load())
		for _, o := range w.sentinels {
			require.Equal(t, 1, o.open())
			require.InDelta(t, 1.33*3600, o.asked, 0.34*3600)
		}

		w.promote("new", 0, 1, 2)
		time.Sleep(sentinelEvery)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
		require.False(t, m.nodes[0].counted(before))
		require.False(t, before.counts())
		require.True(t, before.over.Load())
		require.NoError(t, wait(m.Acquire(claim("k2", "t"), time.Minute, 1), t.Context()))
		require.EqualValues(t, 1, w.dials["old"].Load())
	})
}

// The goal: a sentinel that was cut off from the others names the old master. One of the others is
// enough for the client to leave it, and the client does not come back when the others fail.
func TestSentinel_AStaleOneIsOutvotedByTheEpoch(t *testing.T) {
	w := newWatched("old", "new")
	inWatched(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		w.promote("new", 2)
		time.Sleep(2 * sentinelEvery)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, w.dials["new"].Load(), "it goes to and fro")

		w.sentinels[2].tell(func(o *oracle) { o.dead = true })
		w.servers["new"].cut()
		time.Sleep(m.cfg.MaxTTL / 2)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
		require.EqualValues(t, 1, w.dials["old"].Load())

		time.Sleep(m.cfg.MaxTTL) // a sentinel that is never back does not count for ever
		settled(t, m)
		require.Equal(t, "old", w.server(m))
	})
}

// The goal: with the same epoch, or without any, the client does not leave a master that one
// sentinel still names, and stays nowhere that none does.
func TestSentinel_WithoutAnEpochTheClientStaysWithTheMaster(t *testing.T) {
	w := newWatched("old", "new")
	for _, o := range w.sentinels {
		o.epoch = 0
	}
	inWatched(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		renamed := func(o *oracle) { o.master = "new:6379" }
		w.sentinels[0].tell(renamed)
		w.sentinels[1].tell(renamed)
		time.Sleep(time.Minute)
		require.Equal(t, "old", w.server(m))
		w.sentinels[2].tell(renamed)
		time.Sleep(2 * sentinelEvery)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
	})
}

// The goal: a connect to a master that hangs is given up when the sentinels name another one. It
// does not wait for the limits of the connect.
func TestSentinel_AConnectEndsWhenTheMasterIsAnother(t *testing.T) {
	w := newWatched("old", "new")
	var frozen chan struct{}
	w.servers["old"].hear(func(string) { <-frozen })
	synctest.Test(t, func(t *testing.T) {
		frozen = make(chan struct{})
		defer close(frozen)
		m := start(t, []string{watchedURL}, func(c *Config) { c.Dial = w.dial })
		synctest.Wait()
		begin := time.Now()
		w.promote("new", 1)
		require.NoError(t, m.nodes[0].await())
		require.LessOrEqual(t, time.Since(begin), sentinelEvery+firstPause)
		require.Equal(t, "new", w.server(m))
		closes(t, m)
	})
}

// The goal: a vote of a master that was deposed before it answered is not counted, whatever comes
// then, and the attempt is not sent to the new master as well. So the two have one vote together.
func TestSentinel_AnOldMasterAndANewOneHaveOneVote(t *testing.T) {
	for name, late := range map[string]bool{
		"it never answers":            false,
		"it answers as it is deposed": true,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched("old", "new")
			var hung chan struct{}
			synctest.Test(t, func(t *testing.T) {
				hung = make(chan struct{})
				m := start(t, []string{watchedURL}, func(c *Config) { c.Dial = w.dial })
				settled(t, m)
				w.servers["old"].hear(func(command string) {
					if command == "SET" {
						<-hung
					}
				})
				var sets atomic.Int32
				w.servers["new"].hear(func(command string) {
					if command == "SET" {
						sets.Add(1)
					}
				})
				got := make(chan error)
				go func() { got <- wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()) }()
				synctest.Wait()
				w.promote("new", 0)
				if late {
					m.nodes[0].line.Load().drop(&switchedError{"old:6379", "new:6379"})
					close(hung)
				}
				err := <-got
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorContains(t, err, "the sentinels name new:6379 as the master now")
				require.Zero(t, sets.Load())
				settled(t, m)
				require.Equal(t, "new", w.server(m))
				if !late {
					close(hung)
				}
				closes(t, m)
			})
		})
	}
}

// The goal: an extension that began before the switch is not sent to the new master, which may have
// the old one's keys.
func TestSentinel_AnExtensionThatBeganBeforeIsNotSentToTheNewMaster(t *testing.T) {
	w := newWatched("old", "new")
	isKnown(w.servers["old"], "1", "")
	isKnown(w.servers["new"], "2", "")
	inWatched(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		began := time.Now()
		time.Sleep(time.Millisecond)
		w.promote("new", 0)
		time.Sleep(m.cfg.MaxTTL + deposedFor + sentinelEvery + lastLook)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
		require.True(t, m.nodes[0].line.Load().mayRepeat(began))
	})
}

// The goal: a server that takes the master's place waits for MaxTTL and for the clients that hear
// of it late, also with its own marker and a durable memory: another server may have voted since it
// wrote these.
func TestSentinel_ANewMasterIsQuarantinedWhateverItShows(t *testing.T) {
	w := newWatched("old", "new")
	isKnown(w.servers["old"], "1", "")
	isKnown(w.servers["new"], "2", durableInfo)
	inWatched(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		for _, next := range []string{"new", "old", "new"} {
			w.promote(next, 0)
			time.Sleep(2 * sentinelEvery)
			synctest.Wait()
			require.Equal(t, NodeQuarantined, m.Nodes()[0].State, m.Nodes()[0].Err)
			left := time.Until(m.Nodes()[0].Until)
			require.InDelta(t, m.cfg.MaxTTL+deposedFor, left, float64(2*sentinelEvery))
			time.Sleep(left + lastLook)
			settled(t, m)
			require.Equal(t, next, w.server(m))
		}
	})
}

// The goal: a durable memory that a restart has kept is not taken for whole, because a replica may
// have voted between the two runs. A node that is no master by Sentinel votes at once then.
func TestSentinel_ADurableMasterThatRestartedIsQuarantined(t *testing.T) {
	for url, state := range map[string]NodeState{
		watchedURL:    NodeQuarantined,
		"redis://old": NodeUp,
	} {
		w := newWatched("old")
		isKnown(w.servers["old"], "1", durableInfo)
		w.servers["old"].instead["GET"] = fmt.Sprintf("$40\r\n%s\r\n", run("2"))
		w.servers["old"].instead["CONFIG"] = "*4\r\n+appendfsync\r\n+always\r\n+no-appendfsync-on-rewrite\r\n+no\r\n"
		w.servers["old"].hear(func(command string) {
			if command == "EVALSHA" && url != watchedURL { // it is admitted, and not marked
				w.servers["old"].mu.Lock()
				defer w.servers["old"].mu.Unlock()
				w.servers["old"].instead["GET"] = fmt.Sprintf("$40\r\n%s\r\n", run("1"))
			}
		})
		synctest.Test(t, func(t *testing.T) {
			var log journal
			m := start(t, []string{url}, func(c *Config) {
				c.Dial, c.Logger = w.dial, slog.New(slog.NewTextHandler(&log, nil))
			})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, state, m.Nodes()[0].State, "%s %v", url, m.Nodes()[0].Err)
			require.NotContains(t, log.String(), "is down",
				"it was admitted, and lacked its marker")
			closes(t, m)
		})
	}
}

// The goal: a client whose sentinels hear of the new master last goes on with the old one. Another
// client, which knows, votes on the new master only when all that was granted meanwhile is over.
func TestSentinel_TheWaitOutlastsADeposedMaster(t *testing.T) {
	first, last := newWatched("old", "new"), newWatched("old", "new")
	for _, w := range []*watched{first, last} {
		isKnown(w.servers["old"], "1", "")
		isKnown(w.servers["new"], "2", "")
	}
	inWatched(t, first, func(t *testing.T, ahead *Mux) {
		late := start(t, []string{watchedURL}, func(c *Config) { c.Dial = last.dial })
		settled(t, ahead)
		settled(t, late)
		deposed := late.nodes[0].sending()
		first.promote("new", 0, 1, 2)
		time.Sleep(sentinelsAgree)
		last.promote("new", 0, 1, 2)
		for deposed.counts() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		granted := time.Now().Add(ahead.cfg.MaxTTL)
		status := ahead.Nodes()[0]
		require.Equal(t, NodeQuarantined, status.State)
		require.True(t, status.Until.After(granted), "%v before it is over",
			granted.Sub(status.Until))
		closes(t, late)
	})
}

// The goal: what is known of a former master counts together with a mark. A mark on the server's
// own history shortens the wait, but not below that since the former master was there.
func TestSentinel_AMarkCountsSinceTheFormerMaster(t *testing.T) {
	marked := func(s *sight) {
		s.marker, s.left = mark{lostPrefix, time.Hour, s.history, ""}.text(),
			time.Hour-20*time.Second
	}
	shows := func(marker string) func(s *sight) { return func(s *sight) { s.marker = marker } }
	unseen := func(s *sight) { s.marker, s.promoted = "new", true }
	durable := func(s *sight) { s.marker, s.durable, s.vouched = "old", true, true }
	knew := memory{runID: "old", seen: at(990)}
	for name, test := range map[string]struct {
		show   func(s *sight)
		before memory
		until  float64 // 0: admitted
	}{
		"new client":               {marked, memory{}, 1041},
		"the former left before":   {marked, memory{runID: "old", seen: at(970)}, 1041},
		"the former left after":    {marked, knew, 1050},
		"marked before a demotion": {func(s *sight) { marked(s); s.history = "new.2" }, knew, 1060},
		"promoted":                 {unseen, knew, 1060},
		"durable":                  {durable, knew, 1060},
		"its own marker":           {shows("new"), knew, 1060},
		"a replica, unseen":        {unseen, memory{runID: "new", last: "new.0"}, 1060},
		"its first replica came":   {shows("new"), memory{runID: "new", last: "new.0"}, 0},
		"restarted":                {shows("old"), knew, 1060},
		"a reconnect":              {shows("new"), memory{runID: "new", last: "new.1"}, 0},
		"admitted, new client":     {shows("new"), memory{}, 0},
		"admitted while it waits": {shows("new"), memory{
			runID: "new", marker: "old",
			until: at(1030),
		}, 0},
	} {
		s := sight{runID: "new", history: "new.1", uptime: 5 * time.Second}
		s.introduced, s.asked, s.read = at(1000), at(1000), at(1000)
		test.show(&s)
		a := &admission{replicated: true, memory: test.before}
		a.suspectReplicas(&s)
		v, _ := assess(&s, a.memory, time.Minute, at(1000))
		require.Equal(t, test.until == 0, v.admitted, name)
		if !v.admitted {
			require.Equal(t, at(test.until), v.until, name)
		}
	}
}

// The goal: Inspect looks at the master that the sentinels name at that moment, whatever the node's
// state, and leaves no connection.
func TestSentinel_InspectLooksAtTheMaster(t *testing.T) {
	w := newWatched("old", "new")
	isKnown(w.servers["old"], "1", "")
	isKnown(w.servers["new"], "2", "")
	inWatched(t, w, func(t *testing.T, m *Mux) {
		for _, name := range []string{"old", "new"} {
			w.promote(name, 1)
			all, err := m.Inspect(t.Context())
			require.NoError(t, err)
			require.NoError(t, all[0].Err)
			require.Equal(t, "mymaster@s0:26379", all[0].Node)
			require.Equal(t, map[string]string{"old": run("1"), "new": run("2")}[name],
				all[0].RunID)
			require.NotEmpty(t, all[0].Samples)
			for _, o := range w.sentinels {
				require.Equal(t, 1, o.open())
			}
		}
		require.Equal(t, NodeQuarantined, m.Nodes()[0].State)
	})
}

// The goal: if the sentinels name no master, Inspect says why, with what to do and within its
// limit.
func TestSentinel_InspectSaysWhyNoMasterIsNamed(t *testing.T) {
	for says, change := range map[string]func(o *oracle){
		"connection refused":           func(o *oracle) { o.dead = true },
		"no answer in time":            func(o *oracle) { o.mute = true },
		"WRONGPASS s3...: correct sen": func(o *oracle) { o.says = "-WRONGPASS s3s3cret\r\n" },
	} {
		w := newWatched("old")
		for _, o := range w.sentinels {
			change(o)
		}
		synctest.Test(t, func(t *testing.T) {
			m := start(t, []string{watchedURL + "&sentinel_password=s3cret"},
				func(c *Config) { c.Dial = w.dial })
			for range 2 {
				began := time.Now()
				all, err := m.Inspect(t.Context())
				require.NoError(t, err)
				require.ErrorContains(t, all[0].Err, "no sentinel names the master: sentinel "+
					"s0:26379: ")
				require.ErrorContains(t, all[0].Err, says)
				require.NotContains(t, fmt.Sprintf("%+v", all), "s3cret")
				require.Less(t, time.Since(began), inspectTimeout)
			}
			closes(t, m)
		})
	}
}

// The goal: each reason why the sentinels name no master is in the status, with the sentinel and
// what to do. The password of the sentinels is not.
func TestSentinel_AnErrorSaysWhatToDo(t *testing.T) {
	echo := "-ERR unknown command 'SENTINEL', with args beginning with: 's3cret' \r\n"
	for says, change := range map[string]func(o *oracle){
		"connection refused": func(o *oracle) { o.dead = true },
		"no answer in time":  func(o *oracle) { o.mute = true },
		`knows no master set "mymaster": correct master_set`: func(o *oracle) { o.master = "" },
		"NOAUTH Authentication required.: put sentinel_password": func(o *oracle) {
			o.says = "-NOAUTH Authentication required.\r\n"
		},
		"WRONGPASS s3...: correct sentinel_user and sentinel_password": func(o *oracle) {
			o.says = "-WRONGPASS s3s3cret\r\n"
		},
		"NOPERM no: give the user at the sentinels +sentinel|get-master-addr-by-name and": func(
			o *oracle,
		) {
			o.says = "-NOPERM no\r\n"
		},
		"it is no sentinel; give the address of one": func(o *oracle) { o.says = echo },
		"does not reply as a Redis server does":      func(o *oracle) { o.says = "*1\r\n+x\r\n" },
	} {
		t.Run(says, func(t *testing.T) {
			w := newWatched("old")
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
				require.Equal(t, NodeDown, status.State)
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
	w := newWatched("old")
	for _, o := range w.sentinels {
		o.secretive = true
	}
	inWatched(t, w, func(t *testing.T, m *Mux) {
		synctest.Wait()
		status := m.Nodes()[0]
		require.Equal(t, NodeDown, status.State)
		require.ErrorContains(t, status.Err, "sentinel s2:26379: NOPERM no: give the user at the "+
			"sentinels +sentinel|get-master-addr-by-name and +sentinel|master")
		w.sentinels[1].tell(func(o *oracle) { o.secretive = false })
		time.Sleep(sentinelEvery)
		settled(t, m)
	})
}

// The goal: one sentinel that answers is enough, whichever it is and whatever the others do, and
// the user and password for them are those of the URL.
func TestSentinel_OneThatAnswersIsEnough(t *testing.T) {
	for i := range 3 {
		w := newWatched("old")
		w.sentinels[(i+1)%3].mute = true
		w.sentinels[(i+2)%3].dead = true
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			m := start(t, []string{watchedURL + "&sentinel_user=u&sentinel_password=s3cret"},
				func(c *Config) {
					c.Dial = w.dial
				})
			require.NoError(t, m.nodes[0].await())
			require.LessOrEqual(t, time.Since(begin), sentinelGrace)
			require.Equal(t, []string{"u", "s3cret"}, w.sentinels[i].auth)
			closes(t, m)
		})
	}
}

// The goal: if a Config.Dial to a sentinel ignores its context, the others are asked, and Close
// does not wait.
func TestSentinel_AStuckDialHoldsUpNobody(t *testing.T) {
	w := newWatched("old")
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
		require.LessOrEqual(t, closes(t, m), dialGrace)
	})
}

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
		require.Empty(t, e.option.Sentinel.MasterSet, "rueidis would ask them as well")
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
		secure := e.at(master).option.TLSConfig
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
