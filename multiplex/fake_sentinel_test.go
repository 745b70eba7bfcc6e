package multiplex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// fakeSentinel is a sentinel that a test controls.
type fakeSentinel struct {
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

func (o *fakeSentinel) dial() (net.Conn, error) {
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

func (o *fakeSentinel) serve(conn net.Conn) {
	resptest.Serve(conn, o.answer)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

func (o *fakeSentinel) answer(words []string) string {
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

// change changes the sentinel, and ends its connections if it is dead then.
func (o *fakeSentinel) change(change func(o *fakeSentinel)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
	for conn := range o.conns {
		if o.dead {
			_ = conn.Close()
		}
	}
}

func (o *fakeSentinel) open() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns)
}

// watchedMaster is a network with three sentinels, s0 to s2, and the servers that they may name.
type watchedMaster struct {
	sentinels [3]*fakeSentinel
	servers   map[string]*actor // by host
	hosts     []string          // of servers that keep what they are told: see becomeReal
	real      map[string]*memorynode.Node
	dials     map[string]*atomic.Int32
}

const watchedURL = "redis://s0:26379?addr=s1:26379&addr=s2:26379&master_set=mymaster"

func newWatchedMaster(servers ...string) *watchedMaster {
	w := &watchedMaster{servers: map[string]*actor{}, dials: map[string]*atomic.Int32{}}
	for i := range w.sentinels {
		w.sentinels[i] = &fakeSentinel{master: servers[0] + ":6379", epoch: 1}
	}
	for _, host := range servers {
		w.servers[host], w.dials[host] = &actor{}, new(atomic.Int32)
	}
	return w
}

func (w *watchedMaster) dial(_ context.Context, _, address string) (net.Conn, error) {
	for i, o := range w.sentinels {
		if address == fmt.Sprintf("s%d:26379", i) {
			return o.dial()
		}
	}
	host, _, _ := net.SplitHostPort(address)
	if n := w.real[host]; n != nil {
		return n.Dial(), nil
	}
	if a := w.servers[host]; a != nil {
		w.dials[host].Add(1)
		return a.dial(), nil
	}
	return nil, fmt.Errorf("nobody at %s", address)
}

// promote lets these sentinels name another master, in a later epoch.
func (w *watchedMaster) promote(host string, which ...int) {
	for _, i := range which {
		w.sentinels[i].change(func(o *fakeSentinel) { o.master, o.epoch = host+":6379", o.epoch+1 })
	}
}

// becomeReal starts the servers that keep what they are told. All have the first one's key: they
// were its replicas.
func (w *watchedMaster) becomeReal() {
	w.real = map[string]*memorynode.Node{}
	for i, host := range w.hosts {
		w.real[host] = memorynode.New(i, 1)
		w.real[host].Set(ids.AdmittedKey, w.real[w.hosts[0]].RunID())
	}
}

// withWatchedMaster runs a test in a bubble with one node by Sentinel.
func withWatchedMaster(t *testing.T, w *watchedMaster, test func(t *testing.T, m *Mux),
	change ...func(*Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.becomeReal()
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
	synctest.Wait() // the connector may not know yet that its connection is lost
	up(t, m)
	synctest.Wait()
}

func (w *watchedMaster) server(m *Mux) string {
	host, _, _ := net.SplitHostPort(m.nodes[0].Link.Current().Address)
	return host
}
