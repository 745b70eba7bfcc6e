package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/series"
)

const (
	// leaderVar has the nodes' URLs if this process is to be a leader that BenchmarkElect kills.
	leaderVar   = "LOCKPIPE_BENCH_LEADER"
	electionKey = "leader"
	electionTTL = time.Second
)

// BenchmarkElect is how long there is no leader: after the function of the leader has returned, and
// after the process of the leader was killed. The TTL of the lease is a second. One op is one such
// change of leaders, so -benchtime 20x takes about half a minute.
func BenchmarkElect(b *testing.B) {
	clients := waitingClients(b, 2)
	nodes := strings.Join(addresses(clients[0]), ",")
	b.Run("end=returned", func(b *testing.B) {
		gaps := series.NewHistogram()
		end := lead(b, clients[0])
		for i := range b.N {
			next := make(chan func())
			go func() { next <- lead(b, clients[(i+1)%2]) }()
			time.Sleep(1500 * time.Millisecond) // it waits by now, and has forgotten the last time
			began := time.Now()
			end()
			end = <-next
			gaps.Record(time.Since(began))
		}
		end()
		report(b, gaps)
	})
	b.Run("end=killed", func(b *testing.B) {
		gaps := series.NewHistogram()
		for range b.N {
			process := startLeader(b, nodes)
			next := make(chan func())
			go func() { next <- lead(b, clients[0]) }()
			time.Sleep(time.Second) // it waits by now
			began := time.Now()
			require.NoError(b, process.Process.Kill())
			end := <-next
			gaps.Record(time.Since(began))
			end()
			_ = process.Wait()
		}
		report(b, gaps)
	})
}

func report(b *testing.B, gaps series.Histogram) {
	b.Helper()
	b.ReportMetric(gaps.Latency().P50*1000, "gap-p50-us")
	b.ReportMetric(gaps.Latency().P99*1000, "gap-p99-us")
	b.ReportMetric(gaps.Latency().Max*1000, "gap-max-us")
}

func addresses(c *lockpipe.Client) (all []string) {
	for _, n := range c.Nodes() {
		all = append(all, n.Addr)
	}
	return all
}

// lead campaigns, and returns when it leads. end ends that, and returns when Elect has. If the
// lease was lost before, because the machine stood still, end fails the benchmark.
func lead(b *testing.B, c *lockpipe.Client) (end func()) {
	leads, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(b.Context())
	go func() {
		ended <- c.Elect(ctx, electionKey, func(context.Context, *lockpipe.Lease) error {
			close(leads)
			<-ctx.Done()
			return nil
		}, lockpipe.WithTTL(electionTTL))
	}()
	<-leads
	return func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

// startLeader starts a process of this program that leads, and returns when it does.
func startLeader(b *testing.B, nodes string) *exec.Cmd {
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), leaderVar+"="+nodes)
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	require.NoError(b, err)
	b.Cleanup(func() { _ = stdin.Close() })
	stdout, err := process.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, process.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	require.Equal(b, "leads\n", line)
	return process
}

// leaderMain is such a process. It ends with its standard input.
func leaderMain(nodes string) error {
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: strings.Split(nodes, ","), NodeTimeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return client.Elect(context.Background(), electionKey,
		func(context.Context, *lockpipe.Lease) error {
			fmt.Println("leads")
			_, err := io.Copy(io.Discard, os.Stdin)
			return err
		}, lockpipe.WithTTL(electionTTL))
}
