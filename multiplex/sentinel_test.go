package multiplex

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/sentinel"
	"github.com/stretchr/testify/require"
)

// The goal: the node is the server that the sentinels name, over one connection to each sentinel.
// The node moves to another one within a second after they name that, and the old connection is
// dead.
func TestSentinel_TheNodeIsTheMaster(t *testing.T) {
	w := newWatchedMaster("old", "new")
	withWatchedMaster(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		require.Equal(t, "mymaster@s0:26379", m.Nodes()[0].Addr)
		require.Equal(t, "old", w.server(m))
		before := m.nodes[0].Link.Verified()
		require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
		const long = 10 * time.Minute
		time.Sleep(long)
		require.EqualValues(t, 1, w.dials["old"].Load())
		for _, o := range w.sentinels {
			require.Equal(t, 1, o.open())
			require.InDelta(t, 1.33*long.Seconds(), o.asked, 0.34*long.Seconds())
		}

		w.promote("new", 0, 1, 2)
		time.Sleep(endpoint.AskEvery)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
		require.False(t, m.nodes[0].Link.StillValid(before))
		require.False(t, before.Verified())
		require.True(t, before.IsClosed())
		require.NoError(t, wait(m.Acquire(claim("k2", "t"), time.Minute, 1), t.Context()))
		require.EqualValues(t, 1, w.dials["old"].Load())
	})
}

// The goal: a sentinel that was cut off from the others names the old master. One of the others is
// enough for the client to leave it, and the client does not come back when the others fail.
func TestSentinel_AStaleOneIsOutvotedByTheEpoch(t *testing.T) {
	w := newWatchedMaster("old", "new")
	withWatchedMaster(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		w.promote("new", 2)
		time.Sleep(2 * endpoint.AskEvery)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, w.dials["new"].Load(), "it goes to and fro")

		w.sentinels[2].change(func(o *fakeSentinel) { o.dead = true })
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
// sentinel still names. It does not stay at a server that none names.
func TestSentinel_WithoutAnEpochTheClientStaysWithTheMaster(t *testing.T) {
	w := newWatchedMaster("old", "new")
	for _, o := range w.sentinels {
		o.epoch = 0
	}
	withWatchedMaster(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		renamed := func(o *fakeSentinel) { o.master = "new:6379" }
		w.sentinels[0].change(renamed)
		w.sentinels[1].change(renamed)
		time.Sleep(time.Minute)
		require.Equal(t, "old", w.server(m))
		w.sentinels[2].change(renamed)
		time.Sleep(2 * endpoint.AskEvery)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
	})
}

// The goal: a connect to a master that hangs is given up when the sentinels name another one. It
// does not wait for the limits of the connect.
func TestSentinel_AConnectEndsWhenTheMasterIsAnother(t *testing.T) {
	w := newWatchedMaster("old", "new")
	var frozen chan struct{}
	w.servers["old"].hear(func(string) { <-frozen })
	synctest.Test(t, func(t *testing.T) {
		frozen = make(chan struct{})
		defer close(frozen)
		m := start(t, []string{watchedURL}, func(c *Config) { c.Dial = w.dial })
		synctest.Wait()
		begin := time.Now()
		w.promote("new", 1)
		require.NoError(t, m.nodes[0].Link.AwaitConnected(t.Context()))
		require.LessOrEqual(t, time.Since(begin), endpoint.AskEvery+link.MinReconnectDelay)
		require.Equal(t, "new", w.server(m))
		closes(t, m)
	})
}

// The goal: a vote of a master that was deposed before it answered is not counted, whatever comes
// then. The attempt is not sent to the new master too. So the two have one vote together.
func TestSentinel_AnOldMasterAndANewOneHaveOneVote(t *testing.T) {
	for name, late := range map[string]bool{
		"it never answers":            false,
		"it answers as it is deposed": true,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatchedMaster("old", "new")
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
					m.nodes[0].Link.Current().Drop(errors.New(
						"the sentinels name new:6379 as the master now, in place of old:6379"))
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

// The goal: a replica that takes the master's place has the master's key. It waits for MaxTTL and
// for the clients that hear of it late.
func TestSentinel_ANewMasterIsQuarantined(t *testing.T) {
	w := newWatchedMaster("old", "new")
	w.hosts = []string{"old", "new"}
	withWatchedMaster(t, w, func(t *testing.T, m *Mux) {
		settled(t, m)
		w.promote("new", 0)
		time.Sleep(2 * endpoint.AskEvery)
		synctest.Wait()
		require.Equal(t, link.Quarantined, m.Nodes()[0].State, m.Nodes()[0].Err)
		left := time.Until(m.Nodes()[0].Until)
		require.InDelta(t, m.cfg.MaxTTL+sentinel.DeposedFor, left, float64(2*endpoint.AskEvery))
		time.Sleep(left + link.MaxGuardPoll)
		settled(t, m)
		require.Equal(t, "new", w.server(m))
	})
}

// The goal: a client whose sentinels hear of the new master last continues with the old one.
// Another client, which knows the new one, gets a vote from it only when all that was granted
// meanwhile is over.
func TestSentinel_TheWaitOutlastsADeposedMaster(t *testing.T) {
	first, last := newWatchedMaster("old", "new"), newWatchedMaster("old", "new")
	first.hosts = []string{"old", "new"}
	withWatchedMaster(t, first, func(t *testing.T, ahead *Mux) {
		last.real = first.real
		late := start(t, []string{watchedURL}, func(c *Config) { c.Dial = last.dial })
		settled(t, ahead)
		settled(t, late)
		deposed := late.nodes[0].Link.Verified()
		first.promote("new", 0, 1, 2)
		time.Sleep(sentinel.AgreeWithin)
		last.promote("new", 0, 1, 2)
		for deposed.Verified() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		granted := time.Now().Add(ahead.cfg.MaxTTL)
		status := ahead.Nodes()[0]
		require.Equal(t, link.Quarantined, status.State)
		require.True(t, status.Until.After(granted), "%v before it is over",
			granted.Sub(status.Until))
		closes(t, late)
	})
}

// The goal: Inspect asks the master that the sentinels name at that moment, whatever the node's
// state, and leaves no connection.
func TestSentinel_InspectLooksAtTheMaster(t *testing.T) {
	w := newWatchedMaster("old", "new")
	w.hosts = []string{"old", "new"}
	withWatchedMaster(t, w, func(t *testing.T, m *Mux) {
		for _, name := range []string{"old", "new"} {
			w.promote(name, 1)
			all, err := inspector(t, m).Ask(t.Context())
			synctest.Wait()
			require.NoError(t, err)
			require.NoError(t, all[0].Err)
			require.Equal(t, "mymaster@s0:26379", all[0].Node)
			require.Equal(t, w.real[name].RunID(), all[0].RunID())
			require.NotEmpty(t, all[0].Samples)
			for _, o := range w.sentinels {
				require.Equal(t, 1, o.open())
			}
		}
		require.Equal(t, link.Quarantined, m.Nodes()[0].State)
	})
}
