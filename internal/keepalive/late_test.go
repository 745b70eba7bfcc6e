package keepalive

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// The goal: if this process was stopped until after the time for the reply, it may not have read
// the reply. It looks again before it gives the connection up.
func TestKeepAlive_ALateLookIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		conn := trip.NewConn(client, func(resp.Value) {})
		go func() { _, _ = io.Copy(io.Discard, server) }() // it does not reply
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		var silent atomic.Bool
		k := New(conn, time.Second, 3*time.Second, func() { silent.Store(true) })
		time.Sleep(3 * time.Second)
		k.mu.Lock()
		k.due = k.due.Add(-lateAfter) // as if the timer fired so late
		k.mu.Unlock()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		require.False(t, silent.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, silent.Load())
		k.Stop()
		_ = conn.Close()
		_ = server.Close()
	})
}
