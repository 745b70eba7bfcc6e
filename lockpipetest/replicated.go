package lockpipetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	changeTimeout = time.Minute           // for one change; a failover takes one to three seconds
	pollInterval  = 20 * time.Millisecond // between two checks whether the change has happened
)

// Replicated is a Redis master, one replica of it, and three Sentinels that watch both. All are
// redis-server children on 127.0.0.1. The sentinels replace the master only in Failover and
// KillMaster, or if it has not answered for 30 seconds. So a busy machine does not make them do it.
// Failover and KillMaster must not run at the same time.
type Replicated struct {
	// Set once before StartReplicatedT returns.
	servers          *Nodes
	sentinels        *Nodes
	hasSentinelDebug bool // the sentinels have SENTINEL DEBUG
}

// StartReplicatedT starts a master, a replica and three sentinels, as StartRealT starts masters.
// It returns when the replica follows the master and each sentinel knows all the others. At first
// the master is node 0 of Servers. The test fails at once on an error, and is skipped if there is
// no redis-server: see RequireRedis. All processes end with the test and its subtests. The
// sentinels keep their configuration in a directory of t.TempDir. StartReplicatedT must be called
// from the goroutine of the test.
func StartReplicatedT(t testing.TB) *Replicated {
	t.Helper()
	path := RequireRedis(t)
	servers := StartRealT(t, 2)
	// SENTINEL DEBUG is as old as the settings that hasDebugSettings looks for.
	r := &Replicated{servers: servers, hasSentinelDebug: hasDebugSettings(path)}
	if err := r.follow(1, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r.sentinels = startFor(t, sentinelCount, func(n int) (*Nodes, error) {
		return startSentinels(path, dir, servers.nodes[0].port.addr, n)
	})
	if err := r.introduceSentinels(); err != nil {
		t.Fatal(err)
	}
	return r
}

// Servers returns the two servers, the master and the replica, as nodes 0 and 1.
// [Replicated.Master] says which one is the master. A test can ask and break them like other nodes.
// If a test freezes the master, Failover still replaces it. If a test restarts a server, it comes
// back empty and as a master. The sentinels then make it the replica, if they name the other server
// as the master.
func (r *Replicated) Servers() *Nodes { return r.servers }

// Sentinels returns the address of each sentinel as host:port. The slice is the caller's own.
func (r *Replicated) Sentinels() []string {
	addrs := r.sentinels.URLs()
	for i, u := range addrs {
		addrs[i] = strings.TrimPrefix(u, "redis://")
	}
	return addrs
}

// MasterSet returns the name under which the sentinels watch the master.
func (r *Replicated) MasterSet() string { return masterSet }

// Master returns the number of the server that all sentinels name as the master: 0 or 1. The other
// server is the replica, if it is running. Master returns an error if a sentinel does not answer,
// or if the sentinels do not agree, as while another goroutine calls Failover or KillMaster.
func (r *Replicated) Master() (int, error) {
	named := make([]int, r.sentinels.Len())
	for i := range named {
		reply, err := r.sentinels.Do(i, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterSet)
		if err != nil {
			return 0, err
		}
		if named[i], err = r.serverIndex(reply); err != nil {
			return 0, err
		}
		if named[i] != named[0] {
			return 0, errors.New("lockpipetest: the sentinels do not agree on the master")
		}
	}
	return named[0], nil
}

// serverIndex returns the number of the server whose host and port are in reply.
func (r *Replicated) serverIndex(reply any) (int, error) {
	for i, nd := range r.servers.nodes {
		host, port, _ := strings.Cut(nd.port.addr, ":")
		if parts, ok := reply.([]any); ok && len(parts) == 2 && parts[0] == host &&
			parts[1] == port {
			return i, nil
		}
	}
	return 0, fmt.Errorf("lockpipetest: a sentinel names an unknown master: %v", reply)
}

// Failover makes the replica the master, as an operator does with SENTINEL FAILOVER. It returns
// when all sentinels name the new master. The old master becomes the replica about a second later.
// Until then it still takes itself for a master and accepts writes, which it forgets as a replica.
// First Failover waits until the replica follows the master. It returns an error if the replica or
// a sentinel does not answer, or if a step takes longer than a minute.
func (r *Replicated) Failover() error {
	return r.replaceMaster(func(int) error {
		return await(func() error { // a sentinel refuses while it does not know the replica well
			_, err := r.sentinels.Do(0, "SENTINEL", "FAILOVER", masterSet)
			return err
		})
	})
}

// KillMaster ends the master as SIGKILL does. It returns when a quorum of the sentinels has found
// out and all sentinels name the former replica as the master. Writes that the replica has not
// received are lost. The killed server stays dead until Restart of [Replicated.Servers]. First
// KillMaster waits until the replica follows the master. It returns an error if the replica or a
// sentinel does not answer, or if a step takes longer than a minute.
func (r *Replicated) KillMaster() error {
	if err := r.sendToSentinels(quickDetection...); err != nil {
		return err
	}
	return errors.Join(r.replaceMaster(r.servers.Kill), r.sendToSentinels(slowDetection...))
}

// replaceMaster does what makes the sentinels replace the master, and waits until they have.
func (r *Replicated) replaceMaster(act func(master int) error) error {
	master, err := r.Master()
	if err != nil {
		return err
	}
	if err := await(func() error { return r.inSync(1-master, master) }); err != nil {
		return err
	}
	if err := r.setPeriods(usualPeriods); err != nil {
		return err
	}
	if err := act(master); err != nil {
		return err
	}
	err = await(func() error {
		now, err := r.Master()
		if err == nil && now == master {
			return fmt.Errorf("lockpipetest: the sentinels still name node %d as the master",
				master)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.setPeriods(shortPeriods)
}

// setPeriods gives all sentinels the periods, if they have SENTINEL DEBUG.
func (r *Replicated) setPeriods(periods []string) error {
	if !r.hasSentinelDebug {
		return nil
	}
	return r.sendToSentinels(periods...)
}

// sendToSentinels sends one command to all sentinels.
func (r *Replicated) sendToSentinels(args ...string) error {
	for i := range r.sentinels.Len() {
		if _, err := r.sentinels.Do(i, args...); err != nil {
			return err
		}
	}
	return nil
}

// follow makes one server the replica of the other, and waits until it is in sync.
func (r *Replicated) follow(replica, master int) error {
	host, port, _ := strings.Cut(r.servers.nodes[master].port.addr, ":")
	if _, err := r.servers.Do(replica, "REPLICAOF", host, port); err != nil {
		return err
	}
	return await(func() error { return r.inSync(replica, master) })
}

// inSync returns an error if the replica does not follow the master.
func (r *Replicated) inSync(replica, master int) error {
	reply, err := r.servers.Do(replica, "INFO", "replication")
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	info := resp.ParseInfo(text)
	_, port, _ := strings.Cut(r.servers.nodes[master].port.addr, ":")
	for _, want := range [][2]string{
		{"role", "slave"}, {"master_port", port}, {"master_link_status", "up"},
	} {
		if value := info[want[0]]; value != want[1] {
			return fmt.Errorf("lockpipetest: node %d is no replica in sync: its %s is %q",
				replica, want[0], value)
		}
	}
	return nil
}

// introduceSentinels gives the sentinels their settings and waits until they know each other and
// the replica.
func (r *Replicated) introduceSentinels() error {
	if err := r.sendToSentinels(slowDetection...); err != nil {
		return err
	}
	if err := r.setPeriods(shortPeriods); err != nil {
		return err
	}
	for i := range r.sentinels.Len() {
		if err := await(func() error { return r.knowsAll(i) }); err != nil {
			return err
		}
	}
	return nil
}

// knowsAll returns an error if sentinel i does not know the replica or another sentinel.
func (r *Replicated) knowsAll(i int) error {
	reply, err := r.sentinels.Do(i, "SENTINEL", "MASTER", masterSet)
	if err != nil {
		return err
	}
	fields, _ := reply.([]any) // a name, its value, the next name ...
	known := map[string]any{}
	for ; len(fields) >= 2; fields = fields[2:] {
		name, _ := fields[0].(string)
		known[name] = fields[1]
	}
	replicas, others := known["num-slaves"], known["num-other-sentinels"]
	if replicas != "1" || others != fmt.Sprint(sentinelCount-1) {
		return fmt.Errorf("lockpipetest: sentinel %d knows %v replicas and %v other sentinels",
			i, replicas, others)
	}
	return nil
}

// await returns when check returns nil. It gives up on an error that stays: of a closed group, or
// of a server that is dead or hangs. It continues after a lost connection, because a sentinel ends
// the connections of a server that it makes a replica or a master. It also gives up after
// changeTimeout.
func await(check func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	pause := time.NewTicker(pollInterval)
	defer pause.Stop()
	for {
		err := check()
		var failed *net.OpError
		unreachable := errors.As(err, &failed) && (failed.Op == "dial" || failed.Timeout())
		if err == nil || errors.Is(err, errClosed) || unreachable {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (waited for %v)", err, changeTimeout)
		case <-pause.C:
		}
	}
}
