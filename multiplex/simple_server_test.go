package multiplex

import (
	"net"
	"testing"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/stretchr/testify/require"
)

// startSimple starts servers that lack something that Redis has, and returns their URLs.
func startSimple(t *testing.T, count int, lack func(*memorynode.Node)) (urls []string) {
	t.Helper()
	for i := range count {
		node := memorynode.New(i, 1)
		lack(node)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				go node.Serve(conn)
			}
		}()
		t.Cleanup(func() {
			require.NoError(t, listener.Close())
			node.Stop()
		})
		urls = append(urls, "redis://"+listener.Addr().String())
	}
	return urls
}

// hidesRunID makes a server that does not show in INFO when it was restarted.
func hidesRunID(n *memorynode.Node) { n.HidesRunID = true }

// hasNoTracking makes a server that knows no CLIENT TRACKING.
func hasNoTracking(n *memorynode.Node) {
	n.Before = func(args []string) string {
		if len(args) > 1 && args[0] == "CLIENT" && (args[1] == "TRACKING" || args[1] == "CACHING") {
			return "-ERR unknown subcommand\r\n"
		}
		return ""
	}
}
