package bench

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// BenchmarkRefused is what a call costs whose key is held: one attempt, and ten of a waiting call.
func BenchmarkRefused(b *testing.B) {
	nodes := servertest.Start(b, 5)
	client := func() *lockpipe.Client {
		c, err := lockpipe.New(lockpipe.Config{
			Nodes: nodes.URLs(), NodeTimeout: time.Second, TTL: time.Hour,
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, c.Close(context.Background())) })
		return c
	}
	_, err := client().TryAcquire(b.Context(), "held")
	require.NoError(b, err)
	c := client()
	for name, call := range map[string]func() (*lockpipe.Lease, error){
		"try": func() (*lockpipe.Lease, error) { return c.TryAcquire(b.Context(), "held") },
		"attempts=10": func() (*lockpipe.Lease, error) {
			return c.Acquire(b.Context(), "held", lockpipe.WithMaxAttempts(10),
				lockpipe.WithRetryDelay(0, 0))
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(); !errors.Is(err, lockpipe.ErrHeld) {
					b.Fatal(err)
				}
			}
		})
	}
}
