package leases

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// recorder is what a client sent on its connections.
type recorder struct {
	mu   sync.Mutex
	sent []byte
}

func (r *recorder) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &recordedConn{conn, r}, err
}

// matches returns the first group of each match of pattern in what was sent.
func (r *recorder) matches(pattern string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(r.sent, -1) {
		found = append(found, string(m[1]))
	}
	return found
}

type recordedConn struct {
	net.Conn
	to *recorder
}

func (c *recordedConn) Write(p []byte) (int, error) {
	c.to.mu.Lock()
	c.to.sent = append(c.to.sent, p...)
	c.to.mu.Unlock()
	return c.Conn.Write(p)
}

// The goal: every attempt of one waiting call has a token of its own, of 160 bits, so that the late
// release of one cannot delete the key of another.
func TestToken_EveryAttemptHasAFreshOne(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var wire recorder
	c := kit.Connected(t, kit.NewClient(t, nodes,
		func(cfg *lockpipe.Config) { cfg.Dial, cfg.Owner = wire.dial, lockpipe.NoOwner }))
	holder := kit.Try(t, c, "k", lockpipe.WithTTL(50*time.Second))
	const attempts = 20
	_, err := c.Acquire(t.Context(), "k", lockpipe.WithMaxAttempts(attempts),
		lockpipe.WithRetryDelay(0, 0))
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	tokens := wire.matches(`SET\r\n\$\d+\r\n[^\r]*k\r\n\$28\r\n([A-Za-z0-9_-]{27})A\r\n`)
	require.Len(t, tokens, attempts+1)
	require.Equal(t, holder.Token(), tokens[0])
	distinct(t, tokens)
}

// The goal: leases never share a token, also those of one call and of different clients.
func TestToken_LeasesNeverShareOne(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var tokens []string
	for i := range 3 {
		c := kit.Connected(t, kit.NewClient(t, nodes))
		keys := make([]string, 200)
		for k := range keys {
			keys[k] = fmt.Sprint(i, "/", k)
		}
		for _, r := range c.TryAcquireEach(t.Context(), keys) {
			require.NoError(t, r.Err)
			tokens = append(tokens, r.Lease.Token())
		}
	}
	distinct(t, tokens)
}

func distinct(t *testing.T, tokens []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, token := range tokens {
		require.False(t, seen[token], "token %s was used twice", token)
		seen[token] = true
	}
}
