package multiplex

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// up waits until all nodes are up.
func up(t *testing.T, m *Mux) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, n := range m.Nodes() {
			if n.State != link.Up {
				return false
			}
		}
		return true
	}, patient, often)
}

// owner is a watch and its wake-ups.
type owner struct {
	*line.Watch
	m     *Mux
	key   string
	woken chan struct{}
}

func watching(m *Mux, key string) *owner {
	return &owner{m: m, key: key, woken: make(chan struct{}, 100)}
}

func (o *owner) await(t *testing.T) {
	t.Helper()
	select {
	case <-o.woken:
	case <-time.After(patient):
		require.FailNow(t, "not woken")
	}
}

// watch watches the key on a node from now on.
func (o *owner) watch(node int) {
	o.Watch = o.m.Line(node).Watch(o.key, 0, func() { notify(o.woken) })
}

// subscribe watches the key, and returns what the node has replied.
func (o *owner) subscribe(t *testing.T, node int) line.Place {
	t.Helper()
	if o.watch(node); o.isActive() {
		o.await(t)
	}
	return o.is()
}

func (o *owner) is() line.Place {
	is, _ := o.State()
	return is
}

func (o *owner) isActive() bool {
	_, active := o.State()
	return active
}

func do(t *testing.T, nodes *lockpipetest.Nodes, args ...string) {
	t.Helper()
	_, err := nodes.Do(0, args...)
	require.NoError(t, err)
}

// The goal: the reply is the TTL. A deletion or an extension by another client is reported once,
// until the watch subscribes again.
func TestWatch_ReportsChanges(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	// Which would not let the flushed node vote.
	m := start(t, nodes.URLs(), func(c *Config) { c.Guard = guard.Off })
	up(t, m)
	w := watching(m, "k")
	is := w.subscribe(t, 0)
	require.True(t, is.Known && is.Left() == 0, "the key is missing")
	require.False(t, is.Silent)
	for _, change := range [][]string{
		{"SET", "k", "v"},
		{"DEL", "k"},
		{"PEXPIRE", "k", "90000"},
		{"FLUSHALL"},
	} {
		do(t, nodes, change...)
		w.await(t)
		require.False(t, w.isActive(), "%s took it off", change)
		do(t, nodes, "SET", "k", "v")
		is = w.subscribe(t, 0) // its reply comes behind what the node has reported
		require.True(t, is.Known)
		require.Equal(t, line.Forever, is.Left())
		require.Empty(t, w.woken, "reported once")
		do(t, nodes, "PEXPIRE", "k", "60000")
		w.await(t)
		is = w.subscribe(t, 0)
		require.True(t, is.Known)
		require.InDelta(t, time.Minute, is.Left(), float64(30*time.Second))
	}
	w.Close()
}

// The goal: the client's own release is reported too.
func TestWatch_ReportsTheClientsOwnRelease(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	c, w := claim("k", "t"), watching(m, "k")
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	is := w.subscribe(t, 0)
	require.True(t, is.Known && is.Left() > 0)
	require.NoError(t, wait(m.Release(c, 1), t.Context()))
	w.await(t)
	require.False(t, w.isActive())
}

// The goal: the reply says who has the key, and nothing else makes it fail: neither a key of
// another type, nor one with a value that is longer than a reply may be.
func TestWatch_SaysWhoHasTheKey(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	long := strings.Repeat("x", 1<<20)
	do(t, nodes, "SET", "k", "owned", "PX", "60000")
	do(t, nodes, "SET", "long", long)
	do(t, nodes, "RPUSH", "list", "a")
	for key, token := range map[string]string{
		"k": "owned", "none": "", "list": "", "long": long[:256],
	} {
		w := watching(m, key)
		is := w.subscribe(t, 0)
		require.True(t, is.Known, key)
		require.Equal(t, token, is.Token, key)
		require.False(t, is.Silent, key)
		do(t, nodes, "DEL", key)
		if token != "" || key == "list" {
			w.await(t)
		}
		w.Close()
	}
	require.Zero(t, m.Nodes()[0].Counts.Disconnects.Load())
}

// The goal: a lost connection wakes all watches, and they can subscribe on the next one.
func TestWatch_WakesWhenTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	do(t, nodes, "SET", "k", "v", "PX", "60000")
	w := watching(m, "k")
	for range 3 {
		require.Eventually(t, func() bool {
			return w.subscribe(t, 0).Known && len(w.woken) == 0
		}, patient, often)
		do(t, nodes, "CLIENT", "KILL", "TYPE", "normal")
		w.await(t)
		require.False(t, w.isActive())
		up(t, m)
	}
	require.Eventually(t, func() bool {
		return w.subscribe(t, 0).Known && len(w.woken) == 0
	}, patient, often)
	do(t, nodes, "DEL", "k")
	w.await(t)
}

// The goal: a server that has no tracking, or does not permit it, still serves locks and returns
// the TTL.
func TestWatch_ServersWithoutTrackingReturnTheTTL(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, urls []string) {
		m := start(t, urls, nil)
		up(t, m)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		w := watching(m, "k")
		is := w.subscribe(t, 0)
		require.True(t, is.Known && is.Left() > 50*time.Second)
		require.True(t, is.Silent)
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		many := new(Claim)
		many.Init("", []string{"a", "b"}, "t", "")
		before := m.Nodes()
		require.NoError(t, wait(m.Acquire(many, time.Minute, 2), t.Context()), "%v", before)
	}
	t.Run("unknown", func(t *testing.T) { check(t, startSimple(t, 1, hasNoTracking)) })
	t.Run("forbidden", func(t *testing.T) {
		nodes := servertest.Start(t, 1)
		do(t, nodes, "ACL", "SETUSER", "default", "-client|tracking", "-client|caching")
		check(t, nodes.URLs())
	})
}

// The goal: Close ends watches that are active, that subscribe, and that are on a frozen node. It
// leaves no goroutine.
func TestWatch_EndsWithClose(t *testing.T) {
	nodes := servertest.Start(t, 2)
	before := runtime.NumGoroutine()
	cfg := Config{
		Nodes: endpoints(t, nodes.URLs(), nil), NodeTimeout: time.Second, TTL: time.Minute,
		MaxTTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}
	cfg.Fleet = newFleet(cfg)
	m, err := New(cfg)
	require.NoError(t, err)
	up(t, m)
	active := watching(m, "a")
	require.True(t, active.subscribe(t, 0).Known)
	require.NoError(t, nodes.Freeze(1))
	hanging := watching(m, "h")
	hanging.watch(1)
	var subscribing sync.WaitGroup
	for g := range 4 {
		subscribing.Go(func() {
			for i := range 2000 {
				w := m.Line(0).Watch(fmt.Sprint(g, "/", i), 0, func() {})
				if i%2 == 0 {
					w.Close()
				}
			}
		})
	}
	require.NoError(t, m.Close(context.Background()))
	active.await(t)
	hanging.await(t)
	subscribing.Wait()
	for node := range 2 { // also where no connection was there to be lost
		active.watch(node)
		require.False(t, active.isActive())
	}
	for begin := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begin), patient, "goroutines are left")
	}
}

// The goal: a key whose TTL does not fit into a Duration lasts for ever. It has not expired.
func TestWatch_TTLBeyondADurationIsForever(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	w := watching(m, "k")
	do(t, nodes, "SET", "k", "v", "PX", "9000000000000000000")
	is := w.subscribe(t, 0)
	require.True(t, is.Known)
	require.Equal(t, line.Forever, is.Left())
}

// The goal: no other command comes between CLIENT CACHING and the PTTL behind it, whatever else is
// sent meanwhile. Otherwise the server would not report a change of the key. With keys of this
// length a buffer of 128 KB ends within CLIENT CACHING.
func TestWatch_ItsTwoCommandsStayTogether(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		var mu sync.Mutex
		caching, pairs, apart := false, 0, 0
		actors[0].hear(func(command string) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case caching && command == "PTTL":
				pairs++
			case caching || command == "PTTL":
				apart++
			}
			caching = command == "CLIENT"
		})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for k := range 50 {
					c := claim(fmt.Sprint("k", i, "-", k), "t")
					_ = wait(m.Acquire(c, time.Minute, 1), t.Context())
				}
			})
		}
		for i := range 1000 {
			watching(m, fmt.Sprintf("%01109d", i)).watch(0)
		}
		all.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 1000, pairs)
		require.Zero(t, apart)
	})
}
