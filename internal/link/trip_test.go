package link

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// tripClient is a rueidis client whose connection takes trips.
type tripClient struct {
	rueidis.Client
	conn   *trip.Conn
	pushes atomic.Int64

	mu    sync.Mutex // makes log the order of Enqueue
	log   []string
	trips []*testTrip
}

// testTrip appends its number to a list on the server, and has two commands more.
type testTrip struct {
	trip.Trip
	number string
	count  int
	wrong  string
	ends   chan trip.End
}

func (t *testTrip) OnReply(i int, r resp.Reply) {
	want := []byte{':', '_', '-'}
	if i != t.count || r.Kind != want[i%3] {
		t.wrong = fmt.Sprintf("reply %d is %v", i, r)
	}
	t.count++
}

func (t *testTrip) OnEnd(end trip.End) { t.ends <- end }

func newTripClient(t *testing.T, url string) *tripClient {
	t.Helper()
	e, err := endpoint.Parse(url, nil, 0)
	require.NoError(t, err)
	option := clientOption(e)
	c := new(tripClient)
	address := strings.TrimPrefix(url, "redis://")
	option.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config,
	) (net.Conn, error) {
		if c.conn != nil {
			return nil, ErrNotConnected
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		c.conn = trip.NewConn(&Conn{Conn: conn, onClose: func() {}},
			func(resp.Value) { c.pushes.Add(1) })
		return c.conn, nil
	}
	option.Dialer.KeepAlive = time.Millisecond // a PING whenever it is quiet
	c.Client, err = rueidis.NewClient(option)
	require.NoError(t, err)
	require.NoError(t, c.Do(t.Context(), c.B().Arbitrary("CLIENT", "TRACKING", "ON", "BCAST").
		Build()).Error())
	return c
}

// enqueue puts a new trip on the connection. It returns nil if the connection is closed.
func (c *tripClient) enqueue(part []byte) *testTrip {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &testTrip{number: strconv.Itoa(len(c.log)), ends: make(chan trip.End, 2)}
	t.Receiver, t.Commands = t, 3
	t.Bytes = resp.AppendCommand(nil, "RPUSH", "log", t.number)
	t.Bytes = append(resp.AppendCommand(t.Bytes, "GET", "none"), part...)
	if c.conn.Enqueue(&t.Trip) != nil {
		return nil
	}
	c.log, c.trips = append(c.log, t.number), append(c.trips, t)
	return t
}

// run sends trips and plain commands from many goroutines until all return false.
func (c *tripClient) run(t *testing.T, proceed func(i int) bool) {
	t.Helper()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := 0; proceed(i); i++ {
				next := c.enqueue(resp.AppendCommand(nil, "GET"))
				if next == nil {
					return
				}
				c.conn.Flush()
				next.ends <- <-next.ends
			}
		})
	}
	for g := range 4 {
		all.Go(func() {
			for i := 0; proceed(i); i++ {
				text, err := c.Do(context.Background(), c.B().Ping().Build()).ToString()
				if err == nil && text != "PONG" {
					t.Errorf("PING: %q", text)
				}
				text, err = c.Do(context.Background(),
					c.B().Echo().Message(fmt.Sprint(g)).Build()).ToString()
				if err == nil && text != fmt.Sprint(g) {
					t.Errorf("ECHO %d: %q", g, text)
				}
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// The goal: under rueidis, with its keep-alive, plain commands and pushes between them, trips reach
// the server in the order of Enqueue; and if the server ends, each trip ends once.
func TestTrip_UnderRueidis(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	c := newTripClient(t, nodes.URLs()[0])
	defer c.Close()
	c.run(t, func(i int) bool { return i < 200 })
	require.Len(t, c.trips, 8*200)
	for _, next := range c.trips {
		require.Equal(t, trip.Answered, <-next.ends)
	}
	got, err := c.Do(t.Context(), c.B().Lrange().Key("log").Start(0).Stop(-1).Build()).AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, c.log, got)
	require.NotZero(t, c.pushes.Load())
	time.Sleep(20 * time.Millisecond) // some keep-alive
	require.NoError(t, c.Do(t.Context(), c.B().Ping().Build()).Error())
	before := len(c.trips)

	var turns atomic.Int64
	var kill sync.WaitGroup
	c.run(t, func(int) bool {
		if turns.Add(1) == 400 { // of 12 goroutines: most have had answers
			kill.Go(func() { _ = nodes.Kill(0) })
		}
		return true
	})
	kill.Wait()
	ends := map[trip.End]int{}
	for i, next := range c.trips {
		require.Empty(t, next.wrong)
		if i < before {
			require.Empty(t, next.ends)
			continue
		}
		end := <-next.ends
		require.Empty(t, next.ends, "two ends")
		require.Equal(t, end == trip.Answered, next.count == 3)
		if end == trip.Unsent {
			require.Zero(t, next.count)
		}
		ends[end]++
	}
	require.NotZero(t, ends[trip.Answered])
	t.Log(ends)
}
