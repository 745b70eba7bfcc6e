package lockpipetest

import (
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptools"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// startReplicated starts a replicated master in its first state.
func startReplicated(t *testing.T) *Replicated {
	t.Helper()
	r := StartReplicatedT(t)
	requireSentinelsKnowAll(t, r)
	requireMaster(t, r, 0)
	return r
}

// requireEnded holds if no process is left of a replicated master.
func requireEnded(t *testing.T, r *Replicated) {
	t.Helper()
	addrs := r.Sentinels()
	require.Len(t, addrs, 3)
	for _, u := range r.Servers().URLs() {
		parsed, err := url.Parse(u)
		require.NoError(t, err)
		addrs = append(addrs, parsed.Host)
	}
	for _, addr := range addrs {
		_, err := net.Dial("tcp", addr)
		requireRefused(t, err)
	}
	require.ErrorIs(t, r.Failover(), errClosed)
	require.ErrorIs(t, r.KillMaster(), errClosed)
}

// requireSentinelsKnowAll holds if each sentinel knows the replica and the two other sentinels.
func requireSentinelsKnowAll(t *testing.T, r *Replicated) {
	t.Helper()
	for _, addr := range r.Sentinels() {
		for list, want := range map[string]int{"SLAVES": 1, "SENTINELS": 2} {
			reply, err := ask(addr, askTimeout, "SENTINEL", list, r.MasterSet())
			require.NoError(t, err)
			require.Len(t, reply.Items, want, list)
		}
	}
}

// requireSlowDetection holds if no sentinel would replace a master that hangs for some seconds.
func requireSlowDetection(t *testing.T, r *Replicated) {
	t.Helper()
	for _, addr := range r.Sentinels() {
		reply, err := ask(addr, askTimeout, "SENTINEL", "MASTER", r.MasterSet())
		require.NoError(t, err)
		fields := resptools.Any(reply).([]any)
		i := slices.Index(fields, any("down-after-milliseconds"))
		require.Equal(t, "30000", fields[i+1])
	}
}

// requireMaster holds if every sentinel names server i, asked as a client asks.
func requireMaster(t *testing.T, r *Replicated, i int) {
	t.Helper()
	got, err := r.Master()
	require.NoError(t, err)
	require.Equal(t, i, got)
	want, err := url.Parse(r.Servers().URLs()[i])
	require.NoError(t, err)
	for _, addr := range r.Sentinels() {
		reply, err := ask(addr, askTimeout, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", r.MasterSet())
		require.NoError(t, err)
		require.Equal(t, []any{want.Hostname(), want.Port()}, resptools.Any(reply))
	}
}

// requireReplicates holds if the master's writes get to the replica, and the replica refuses
// writes.
func requireReplicates(t *testing.T, r *Replicated, master int, key string) {
	t.Helper()
	replica := 1 - master
	require.NoError(t, await(func() error { return r.inSync(replica, master) }))
	do(t, r.Servers(), master, "SET", key, "v")
	require.Eventually(t, func() bool {
		v, err := r.Servers().Do(replica, "GET", key)
		return err == nil && v == "v"
	}, eventually, pollEvery)
	_, err := r.Servers().Do(replica, "SET", key, "w")
	require.ErrorContains(t, err, "READONLY")
}

// The goal: Failover and KillMaster replace the master. After the test no process, no file and no
// goroutine is left.
func TestReplicated_ReplacesTheMaster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short, so no failover is tested")
	}
	RequireRedis(t)
	t.Setenv("TMPDIR", t.TempDir())
	ignore := goleak.IgnoreCurrent()
	var started []*Replicated
	t.Run("by", func(t *testing.T) { // it waits for both
		for name, test := range map[string]func(*testing.T, *Replicated){
			"Failover": failoverSwapsTheServers, "KillMaster": killMasterPromotesTheReplica,
		} {
			r := new(Replicated)
			started = append(started, r)
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of it is waiting for the sentinels
				*r = *startReplicated(t)
				test(t, r)
			})
		}
	})
	if t.Failed() {
		return
	}
	for _, r := range started {
		requireEnded(t, r)
	}
	goleak.VerifyNone(t, ignore)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// failoverSwapsTheServers requires that a planned failover swaps the two servers, also back, and
// also while the master hangs.
func failoverSwapsTheServers(t *testing.T, r *Replicated) {
	requireReplicates(t, r, 0, "before")
	require.NoError(t, r.Failover())
	requireMaster(t, r, 1)
	requireReplicates(t, r, 1, "after")

	require.NoError(t, r.Servers().Freeze(1))
	require.NoError(t, r.Failover())
	requireMaster(t, r, 0)
	require.Equal(t, "v", do(t, r.Servers(), 0, "GET", "after"))
	require.NoError(t, r.Servers().Thaw(1))
	requireReplicates(t, r, 0, "thawed")
}

// killMasterPromotesTheReplica requires that the replica is promoted with its keys when the master
// is killed. The killed server can come back as the replica. Without a replica, a change is an
// error at once.
func killMasterPromotesTheReplica(t *testing.T, r *Replicated) {
	requireReplicates(t, r, 0, "kept")
	require.NoError(t, r.KillMaster())
	requireMaster(t, r, 1)
	require.Equal(t, "v", do(t, r.Servers(), 1, "GET", "kept"))
	_, err := r.Servers().Do(0, "PING")
	requireRefused(t, err)
	requireRefused(t, r.Failover())
	requireRefused(t, r.KillMaster())
	requireMaster(t, r, 1)
	requireSlowDetection(t, r)

	require.NoError(t, r.Servers().Restart(0))
	requireReplicates(t, r, 1, "restarted")
}

// A wait that never ends would hold up a test until it times out, and hide the reason.
func TestReplicated_WaitsAreBoundedAndSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		reason := errors.New("not in sync")
		err := await(func() error { return reason })
		require.ErrorIs(t, err, reason)
		require.Equal(t, changeTimeout, time.Since(start))
	})
}

// The goal: a wait continues when a sentinel ends the connections of a server that it makes a
// replica or a master. It ends at once when a server is dead or hangs.
func TestReplicated_WaitsEndWithTheServerOnly(t *testing.T) {
	failed := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	refused, hung := failed("dial", syscall.ECONNREFUSED), failed("read", os.ErrDeadlineExceeded)
	reset, broken := failed("read", syscall.ECONNRESET), failed("write", syscall.EPIPE)
	for first, want := range map[error]error{
		reset: nil, broken: nil, refused: refused,
		hung: hung,
	} {
		synctest.Test(t, func(t *testing.T) {
			looks := 0
			err := await(func() error {
				if looks++; looks == 1 {
					return first
				}
				return nil
			})
			require.Equal(t, want, err)
		})
	}
}

func TestReplicated_UnknownMasterIsAnError(t *testing.T) {
	r := &Replicated{servers: startFor(t, 1, StartInProcess)}
	for _, reply := range []any{nil, "x", []any{}, []any{"127.0.0.1"}, []any{"127.0.0.1", "1"}} {
		_, err := r.serverIndex(reply)
		require.Error(t, err, "%v", reply)
	}
}
