package multiplex

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// Less than the MaxTTL of a minute that clients have here, where a test does not say otherwise.
	patient = 20 * time.Second
	// often is how often a condition is looked at: each look has a goroutine of its own.
	often = 5 * time.Millisecond
)

// becomes waits until node i is in this state, and its error says so; "" for none.
func becomes(t *testing.T, m *Mux, i int, s link.State, says string) NodeStatus {
	t.Helper()
	var last NodeStatus
	met := func() bool {
		last = m.Nodes()[i]
		return last.State == s && (says == "" || strings.Contains(last.Err.Error(), says))
	}
	if !assert.Eventually(t, met, patient, often) {
		require.FailNow(t, "another state", "node %d is not %v with %q, but %v with %v", i, s, says,
			last.State, last.Err)
	}
	if s == link.Quarantined {
		require.False(t, last.Until.IsZero())
	} else {
		require.Zero(t, last.Until)
	}
	return last
}

// ask sends one command to node i, and wants no error.
func ask(t *testing.T, nodes *lockpipetest.Nodes, i int, args ...string) any {
	t.Helper()
	got, err := nodes.Do(i, args...)
	require.NoError(t, err)
	return got
}

// runID is that of the server of node i now.
func runID(t *testing.T, nodes *lockpipetest.Nodes, i int) string {
	t.Helper()
	return resp.ParseInfo(ask(t, nodes, i, "INFO", "server").(string))["run_id"]
}

// sets is how many SET commands the server of node i has executed.
func sets(t *testing.T, nodes *lockpipetest.Nodes, i int) string {
	t.Helper()
	return resp.ParseInfo(ask(t, nodes, i, "INFO", "commandstats").(string))["cmdstat_set"]
}

func mode(g guard.Mode) func(*Config) { return func(c *Config) { c.Guard = g } }

// waits lets a quarantine last for this time: several seconds, or a test on a busy machine could
// look when it is over already.
func waits(d time.Duration) func(*Config) { return func(c *Config) { c.MaxTTL = d } }

// The reasons of quarantines, as users see them.
const (
	whyRestarted = "it restarted, or another server took its place"
	whyFlushed   = "its key is gone: it was flushed"
	whyNoKey     = "it was never admitted, or it lost its data"
	whyForeign   = "its key is another memory's"
	whyWaits     = "another client found that it may have lost locks"
)

// settles reports whether a client writes a name into the guard's key: that does not end.
func settles(p []byte) bool {
	r := resptest.NewReader(bytes.NewReader(p))
	for {
		w, err := resptest.ReadCommand(r)
		if err != nil {
			return false
		}
		if len(w) == 9 && w[1] == script.Guard.SHA && w[6] == "" &&
			!strings.Contains(w[3], ids.ProbeKey) {
			return true
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// spy is a connection that tells of what is written, and can leave the server alone with it.
type spy struct {
	net.Conn
	wrote func([]byte)
	leave bool // Close ends the client's half only
}

func (s *spy) Write(p []byte) (int, error) { s.wrote(p); return s.Conn.Write(p) }

func (s *spy) Close() error {
	if s.leave {
		return s.SetDeadline(time.Unix(1, 0))
	}
	return s.Conn.Close()
}

// outOfReach lets the client not reach the addresses for which that is so.
func outOfReach(isSo func(address string) bool) func(*Config) {
	return func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if isSo(address) {
				return nil, errors.New("out of reach")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
}
