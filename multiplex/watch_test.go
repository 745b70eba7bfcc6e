package multiplex

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// up waits until all nodes are up.
func up(t *testing.T, m *Mux) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, n := range m.Nodes() {
			if n.State != NodeUp {
				return false
			}
		}
		return true
	}, patient, often)
}

// owner is a watch and its wake-ups.
type owner struct {
	*Watch
	woken chan struct{}
}

func watching(m *Mux, key string) *owner {
	o := &owner{woken: make(chan struct{}, 100)}
	o.Watch = m.Watch(key, func() { notify(o.woken) })
	return o
}

func (o *owner) await(t *testing.T) {
	t.Helper()
	select {
	case <-o.woken:
	case <-time.After(patient):
		require.FailNow(t, "not woken")
	}
}

// subscribe subscribes, and returns the TTL when the node has replied.
func (o *owner) subscribe(t *testing.T, node int) (time.Duration, bool) {
	t.Helper()
	o.Subscribe(node)
	o.await(t)
	is := o.State()
	return is.TTL, is.Known
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
	m := start(t, nodes.URLs(), func(c *Config) { c.Guard = GuardOff })
	up(t, m)
	w := watching(m, "k")
	defer w.Close()
	left, known := w.subscribe(t, 0)
	require.True(t, known && left == 0, "the key is missing")
	require.True(t, w.State().Notifies)
	for _, change := range [][]string{
		{"SET", "k", "v"},
		{"DEL", "k"},
		{"PEXPIRE", "k", "90000"},
		{"FLUSHALL"},
	} {
		do(t, nodes, change...)
		w.await(t)
		known = w.State().Known
		require.False(t, known, "%s took it off", change)
		do(t, nodes, "SET", "k", "v")
		left, known = w.subscribe(t, 0) // its reply comes behind what the node has reported
		require.True(t, known)
		require.Equal(t, Forever, left)
		require.Empty(t, w.woken, "reported once")
		do(t, nodes, "PEXPIRE", "k", "60000")
		w.await(t)
		left, known = w.subscribe(t, 0)
		require.True(t, known)
		require.InDelta(t, time.Minute, left, float64(30*time.Second))
	}
}

// The goal: the client's own release is reported too.
func TestWatch_ReportsTheClientsOwnRelease(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	c, w := claim("k", "t"), watching(m, "k")
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	left, known := w.subscribe(t, 0)
	require.True(t, known && left > 0)
	require.NoError(t, wait(m.Release(c, 1), t.Context()))
	w.await(t)
	known = w.State().Known
	require.False(t, known)
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
		"k": "owned", "none": "", "list": "", "long": long[:resp.MaxText],
	} {
		w := watching(m, key)
		require.Empty(t, w.State().Token)
		_, known := w.subscribe(t, 0)
		require.True(t, known, key)
		require.Equal(t, token, w.State().Token, key)
		require.True(t, w.State().Notifies, key)
		do(t, nodes, "DEL", key)
		if token != "" || key == "list" {
			w.await(t)
		}
		w.Close()
	}
	require.Zero(t, m.Nodes()[0].Stats.Disconnects)
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
			_, known := w.subscribe(t, 0)
			return known &&
				len(w.woken) == 0
		}, patient, often)
		do(t, nodes, "CLIENT", "KILL", "TYPE", "normal")
		w.await(t)
		known := w.State().Known
		require.False(t, known)
		up(t, m)
	}
	require.Eventually(t, func() bool {
		_, known := w.subscribe(t, 0)
		return known &&
			len(w.woken) == 0
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
		left, known := w.subscribe(t, 0)
		require.True(t, known && left > 50*time.Second)
		require.False(t, w.State().Notifies)
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

// The goal: watches that subscribe together share flushes, and each gets a reply.
func TestWatch_ManyUseFewFlushes(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		var woken atomic.Int32
		for i := range n {
			w := m.Watch(fmt.Sprint("k", i), func() { woken.Add(1) })
			w.Subscribe(0)
			w.Subscribe(0) // a reply is awaited already
		}
		time.Sleep(time.Second)
		require.Equal(t, int32(n), woken.Load())
		stats := m.Nodes()[0].Stats
		require.LessOrEqual(t, stats.Flushes, uint64(10))
		require.Equal(t, uint64(n), stats.Operations)
		stop()
	})
}

// The goal: Close ends watches that are active, that subscribe, and that are on a frozen node. It
// leaves no goroutine.
func TestWatch_EndsWithClose(t *testing.T) {
	nodes := servertest.Start(t, 2)
	before := runtime.NumGoroutine()
	cfg := Config{
		Nodes: nodes.URLs(), NodeTimeout: time.Second, TTL: time.Minute,
		MaxTTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}
	cfg.Fleet = newFleet(cfg)
	m, err := New(cfg)
	require.NoError(t, err)
	up(t, m)
	active := watching(m, "a")
	_, known := active.subscribe(t, 0)
	require.True(t, known)
	require.NoError(t, nodes.Freeze(1))
	hanging := watching(m, "h")
	hanging.Subscribe(1)
	var subscribing sync.WaitGroup
	for g := range 4 {
		subscribing.Go(func() {
			for i := range 2000 {
				w := m.Watch(fmt.Sprint(g, "/", i), func() {})
				w.Subscribe(0)
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
		active.Subscribe(node)
		active.await(t)
		require.False(t, active.State().Active)
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
	defer w.Close()
	do(t, nodes, "SET", "k", "v", "PX", "9000000000000000000")
	left, known := w.subscribe(t, 0)
	require.True(t, known)
	require.Equal(t, Forever, left)
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
			w := watching(m, fmt.Sprintf("%01109d", i))
			defer w.Close()
			w.Subscribe(0)
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
