package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// calling is in the metrics of a run that makes its calls: an interrupt before that leaves nothing
// to print.
var calling = regexp.MustCompile(`kind="try",outcome="granted"} [1-9]`)

// freeAddress is one that a server can listen on. Nobody else is given it before the test ends,
// because it is kept for a node that is dead.
func freeAddress(t *testing.T) string {
	t.Helper()
	nodes, err := lockpipetest.StartInProcess(1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nodes.Close() })
	require.NoError(t, nodes.Kill(0))
	return strings.TrimPrefix(nodes.URLs()[0], "redis://")
}

// Goal: while a run lasts, Prometheus can read what its Clients do; afterwards the address is
// free again.
func TestMetrics_AreServedDuringTheRun(t *testing.T) {
	address := freeAddress(t)
	over := make(chan int, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		code, _, _ := loadgen(ctx, strings.Fields("-nodes inprocess:3 -c 4 -clients 2 -d 1h "+
			"-metrics "+address)...)
		over <- code
	}()
	require.Eventually(t, func() bool {
		text := text("http://" + address + "/metrics")
		return strings.Contains(text, `lockpipe_node_state{client="1",node=`) &&
			strings.Contains(text, "\ngo_goroutines ") &&
			strings.Contains(text,
				`lockpipe_calls_total{client="0",kind="wait",outcome="granted"} 1`) &&
			calling.MatchString(text)
	}, 30*time.Second, 5*time.Millisecond)
	interrupt()
	require.Equal(t, exitSafe, <-over)
	again, err := net.Listen("tcp", address)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// text returns what is at a URL, or "" if there is nothing. It leaves no connection, for whose end
// a run would wait.
func text(url string) string {
	defer http.DefaultClient.CloseIdleConnections()
	r, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}
