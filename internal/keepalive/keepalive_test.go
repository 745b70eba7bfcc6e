package keepalive_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/keepalive"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

const gap, timeout = 500 * time.Millisecond, time.Second

// keptAlive is a connection with a keepAlive, whose server takes a time for each reply.
type keptAlive struct {
	*trip.Conn
	*keepalive.KeepAlive
	pings  atomic.Int32
	silent atomic.Bool

	mu     sync.Mutex // guards all below
	takes  time.Duration
	resume chan struct{} // the server replies to nothing before it is closed; nil: it replies
}

func newKeptAlive(t *testing.T) *keptAlive {
	t.Helper()
	client, server := net.Pipe()
	k := &keptAlive{Conn: trip.NewConn(client, func(resp.Value) {})}
	k.KeepAlive = keepalive.New(k.Conn, gap, timeout, func() {
		if k.silent.Swap(true) {
			t.Error("called twice")
		}
	})
	go resptest.Serve(server, k.reply)
	go func() { _, _ = io.Copy(io.Discard, k.Conn) }() // as rueidis does
	t.Cleanup(func() {
		k.stall()()
		k.Stop()
		_ = k.Close()
		time.Sleep(time.Minute) // until the server ends
	})
	return k
}

func (k *keptAlive) reply(words []string) string {
	k.mu.Lock()
	takes, resume := k.takes, k.resume
	k.mu.Unlock()
	time.Sleep(takes)
	if words[0] == "PING" {
		k.pings.Add(1)
	}
	if resume != nil {
		<-resume
	}
	return "+OK\r\n"
}

// stall lets the server hang until the function that it returns is called.
func (k *keptAlive) stall() (resume func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	hung := make(chan struct{})
	if k.resume != nil {
		hung = k.resume
	}
	k.resume = hung
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.resume == hung {
			close(hung)
			k.resume = nil
		}
	}
}

// load sends a trip of some commands, and another one whenever that is answered.
func (k *keptAlive) load(commands int) {
	ended := make(chan trip.End, 1)
	t := trip.Trip{Commands: commands, Receiver: load{ended}}
	for range commands {
		t.Bytes = resp.AppendCommand(t.Bytes, "SET")
	}
	for k.Enqueue(&t) == nil {
		k.Flush()
		<-ended
	}
}

type load struct{ ended chan trip.End }

func (load) OnReply(int, resp.Reply) {}
func (l load) OnEnd(end trip.End)    { l.ended <- end }
func (k *keptAlive) sinceStall() func() time.Duration {
	k.stall()
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}

// The goal: an idle connection is probed, and costs two commands in a second. If the peer is gone,
// that is noticed after 1 to 1.5 seconds. A node that stalls for less is kept.
func TestKeepAlive_ProbesAnIdleConnection(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			k := newKeptAlive(t)
			time.Sleep(10*time.Second + time.Duration(phase)*gap/10)
			require.InDelta(t, 20, k.pings.Load(), 1)
			resume := k.stall()
			time.Sleep(timeout - time.Millisecond)
			require.False(t, k.silent.Load())
			resume()
			time.Sleep(5 * time.Second)
			require.False(t, k.silent.Load())

			since := k.sinceStall()
			for !k.silent.Load() {
				time.Sleep(time.Millisecond)
			}
			require.GreaterOrEqual(t, since(), timeout)
			require.LessOrEqual(t, since(), gap+timeout+2*time.Millisecond)
		})
	}
}

// The goal: under load nothing is probed. A node that stalls then is kept for 1.5 seconds, and
// given up after 2.
func TestKeepAlive_KeepsAStalledNodeUnderLoad(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			k := newKeptAlive(t)
			k.takes = time.Millisecond
			go k.load(2)
			time.Sleep(10*time.Second + time.Duration(phase)*gap/10)
			require.Zero(t, k.pings.Load())
			resume := k.stall()
			time.Sleep(gap + timeout - 2*time.Millisecond)
			require.False(t, k.silent.Load())
			resume()
			time.Sleep(5 * time.Second)
			require.False(t, k.silent.Load())

			since := k.sinceStall()
			for !k.silent.Load() {
				time.Sleep(time.Millisecond)
			}
			require.GreaterOrEqual(t, since(), gap+timeout-2*time.Millisecond)
			require.LessOrEqual(t, since(), 2*gap+timeout+2*time.Millisecond)
		})
	}
}

// The goal: a connection on which replies come is kept, also if the reply to the probe is behind
// many others for longer than it may take.
func TestKeepAlive_CountsEveryReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeptAlive(t)
		k.takes = gap + 100*time.Millisecond // so it is probed behind the first
		go k.load(5)
		time.Sleep(time.Minute)
		require.False(t, k.silent.Load())
		require.Positive(t, k.pings.Load())
	})
}

// The goal: a connection on which something comes all the time is given up, if the oldest trip has
// no end.
func TestKeepAlive_BoundsTheOldestTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeptAlive(t)
		k.takes = gap - 100*time.Millisecond
		began := time.Now()
		go k.load(100)
		for !k.silent.Load() {
			time.Sleep(gap / 10)
		}
		require.GreaterOrEqual(t, time.Since(began), (keepalive.MaxStuck-1)*gap)
		require.LessOrEqual(t, time.Since(began), (keepalive.MaxStuck+1)*gap)
	})
}
