package lockpipetest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	clusterSlots = 16384
	// clusterNodeTimeout keeps the servers from a failover that no test asked for.
	clusterNodeTimeout = "15000"
	// viewTimeout is after what time a server that was asked for its view counts as frozen.
	viewTimeout = 2 * time.Second
	// failoverTimeout is after what time a replica has given up to become the master.
	failoverTimeout = 6 * time.Second
	// maxClusterPort is the highest port of a server: its bus has one that is 10,000 higher.
	maxClusterPort = 55_535
)

// Cluster is a Redis Cluster of some masters, each with one replica. All are redis-server children
// on 127.0.0.1. Its methods take a slot, such as 2730: Config.Nodes with the URL of a cluster of
// three has the slots 2730, 8192 and 13653. Methods that change something must not run at the same
// time.
type Cluster struct {
	// Set once before StartClusterIn returns.
	masters int
	servers *Nodes
	buses   []*bus
	ids     []string
}

// StartCluster starts three masters, which are nodes 0 to 2 of Servers at first, and their
// replicas, 3 to 5. It returns when each server says that the cluster is complete. The test fails
// at once on an error, and is skipped if there is no redis-server: see RequireRedis. All processes
// end with the test and its subtests. The servers keep their view of the cluster in a directory of
// t.TempDir. StartCluster must be called from the goroutine of the test.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	RequireRedis(t)
	c, err := StartClusterIn(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// StartClusterIn is StartCluster without a test, for so many masters. The servers keep their view
// of the cluster in the directory. It returns an error if there is no redis-server, and then
// nothing is left running. The caller ends the servers with Close, and removes the directory.
func StartClusterIn(dir string, masters int) (*Cluster, error) {
	path, err := findRedisServer()
	if err != nil {
		return nil, fmt.Errorf("lockpipetest: start a cluster: %w", err)
	}
	c := &Cluster{masters: masters}
	nodes := &Nodes{backend: backendReal, spawner: newSpawner()}
	if c.servers, err = start(nodes, 2*masters, c.launcher(nodes.spawner, path, dir)); err != nil {
		return nil, err
	}
	if err := c.join(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close kills all servers, and returns when they are gone.
func (c *Cluster) Close() error {
	for _, b := range c.buses {
		b.close()
	}
	return c.servers.Close()
}

// launcher returns the launchFunc of servers with cluster support.
func (c *Cluster) launcher(s *spawner, path, dir string) launchFunc {
	debugSettings := hasDebugSettings(path)
	return func(addr string) (server, error) {
		_, port, _ := strings.Cut(addr, ":")
		if n, err := strconv.Atoi(port); err != nil || n > maxClusterPort {
			return nil, fmt.Errorf("port %s is too high for a cluster", port)
		}
		args, err := redisArgs(addr, debugSettings)
		if err != nil {
			return nil, err
		}
		args = append(args,
			"--cluster-enabled", "yes",
			"--cluster-config-file", filepath.Join(dir, "nodes-"+port+".conf"),
			"--cluster-node-timeout", clusterNodeTimeout,
			"--cluster-announce-ip", "127.0.0.1")
		for i, b := range c.buses { // there are none before the servers have met
			if c.addr(i) == addr {
				args = append(args, "--cluster-announce-bus-port", b.port())
			}
		}
		return launchChild(s, addr, exec.Command(path, args...))
	}
}

// join makes one cluster of the servers. They talk to each other through buses that can be cut.
func (c *Cluster) join() error {
	for i := range c.servers.Len() {
		id, err := c.servers.Do(i, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		b, err := newBus(c.addr(i), fmt.Sprint(id))
		if err != nil {
			return err
		}
		c.buses, c.ids = append(c.buses, b), append(c.ids, b.id)
		commands := [][]string{
			{"CONFIG", "SET", "cluster-announce-bus-port", b.port()},
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
		}
		if i < c.masters {
			first, end := clusterSlots*i/c.masters, clusterSlots*(i+1)/c.masters
			add := []string{"CLUSTER", "ADDSLOTS"}
			for slot := first; slot < end; slot++ {
				add = append(add, strconv.Itoa(slot))
			}
			commands = append(commands, add)
		}
		for _, command := range commands {
			if _, err := c.servers.Do(i, command...); err != nil {
				return err
			}
		}
	}
	if err := c.meet(0); err != nil {
		return err
	}
	for i := c.masters; i < c.servers.Len(); i++ {
		replicate := func() error {
			_, err := c.servers.Do(i, "CLUSTER", "REPLICATE", c.ids[i-c.masters])
			return err // as long as it does not know the master
		}
		if err := errors.Join(await(replicate), c.meet(i)); err != nil {
			return err
		}
	}
	return await(c.isComplete)
}

// meet lets a server tell all others at once what it is. Else it tells one of them each second.
func (c *Cluster) meet(server int) error {
	for i, b := range c.buses {
		_, port, _ := strings.Cut(c.addr(i), ":")
		_, err := c.servers.Do(server, "CLUSTER", "MEET", "127.0.0.1", port, b.port())
		if i != server && err != nil {
			return err
		}
	}
	return nil
}

// isComplete returns an error if a server does not know all, or a replica does not follow.
func (c *Cluster) isComplete() error {
	for i := range c.servers.Len() {
		reply, err := c.servers.Do(i, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		text, _ := reply.(string)
		info := resp.ParseInfo(text)
		if info["cluster_state"] != "ok" || info["cluster_size"] != strconv.Itoa(c.masters) ||
			info["cluster_known_nodes"] != strconv.Itoa(c.servers.Len()) {
			return fmt.Errorf("lockpipetest: server %d does not know the whole cluster: %v", i, info)
		}
		if _, err := c.isMaster(i); err != nil {
			return err
		}
	}
	for replica := c.masters; replica < c.servers.Len(); replica++ {
		if err := c.know(replica); err != nil {
			return err
		}
	}
	return nil
}

// isMaster returns whether a server is a master. It returns an error if it is a replica that does
// not follow its master yet.
func (c *Cluster) isMaster(i int) (bool, error) {
	reply, err := c.servers.Do(i, "INFO", "replication")
	if err != nil {
		return false, err
	}
	text, _ := reply.(string)
	info := resp.ParseInfo(text)
	if info["role"] == "slave" && info["master_link_status"] != "up" {
		return false, fmt.Errorf("lockpipetest: server %d does not follow its master yet", i)
	}
	return info["role"] == "master", nil
}

func (c *Cluster) addr(i int) string { return c.servers.nodes[i].port.addr }

// URL returns the only entry of Config.Nodes for this cluster, with a node for each master. It has
// the addresses of the first masters.
func (c *Cluster) URL() string {
	var url strings.Builder
	fmt.Fprintf(&url, "redis://%s?cluster=%d", c.addr(0), c.masters)
	for i := 1; i < c.masters; i++ {
		url.WriteString("&addr=" + c.addr(i))
	}
	return url.String()
}

// Servers returns the servers: first those that were masters at first, then their replicas. A test
// can ask and break them like other nodes. A server that comes back by Restart is empty, and in the
// cluster what it was, if no other server has taken its place.
func (c *Cluster) Servers() *Nodes { return c.servers }

// view returns what a server says of the cluster.
func (c *Cluster) view(i int) (string, error) {
	reply, err := ask(c.addr(i), viewTimeout, "CLUSTER", "NODES")
	return reply.Text, err
}

// know returns an error if a server does not know a replica of the other server of its shard. Then
// it does not vote for the replica, and the other server does not let the replica fail over.
func (c *Cluster) know(replica int) error {
	names := regexp.MustCompile(c.ids[replica] + ` \S+ \S+ ` + c.ids[c.replicaOf(replica)])
	for i, b := range c.buses {
		if view, err := c.view(i); err == nil && !b.isCut() && !names.MatchString(view) {
			return fmt.Errorf("lockpipetest: server %d does not know the replica %d", i, replica)
		}
	}
	return nil
}

// Owner returns the number of the server that server i takes for the owner of a slot.
func (c *Cluster) Owner(i, slot int) (int, error) {
	view, err := c.view(i)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(view) {
		words := strings.Fields(line)
		for _, r := range words[min(8, len(words)):] {
			begin, end, isRange := strings.Cut(r, "-")
			first, err := strconv.Atoi(begin)
			last := first
			if isRange {
				last, _ = strconv.Atoi(end)
			}
			if err == nil && first <= slot && slot <= last {
				return slices.Index(c.ids, words[0]), nil
			}
		}
	}
	return 0, fmt.Errorf("lockpipetest: server %d knows no owner of slot %d", i, slot)
}

// replicaOf returns the number of the other server of the same shard.
func (c *Cluster) replicaOf(server int) int { return (server + c.masters) % c.servers.Len() }

// Failover makes the replica of a slot's owner the master, as an operator does with CLUSTER
// FAILOVER. It returns when all servers that are not cut off name the new owner.
func (c *Cluster) Failover(slot int) error {
	return c.replace(slot, func(replica int) error {
		return await(func() error { return c.failOverTo(replica) })
	})
}

// failOverTo orders a failover, and returns when the replica is the master. After an election
// without a majority a replica waits for four node timeouts. So all have to know the replica first.
func (c *Cluster) failOverTo(replica int) error {
	if _, err := c.isMaster(replica); err != nil {
		return err
	}
	if err := c.know(replica); err != nil {
		return err
	}
	if _, err := c.servers.Do(replica, "CLUSTER", "FAILOVER"); err != nil {
		return err // as long as it does not know the master well
	}
	for began := time.Now(); time.Since(began) < failoverTimeout; time.Sleep(pollInterval) {
		if master, err := c.isMaster(replica); master || err != nil {
			return err
		}
	}
	return fmt.Errorf("lockpipetest: server %d has got no votes", replica)
}

// Takeover makes the replica of a slot's owner the master by CLUSTER FAILOVER TAKEOVER, which asks
// no other server. It returns when all servers that run and are not cut off name the new owner.
func (c *Cluster) Takeover(slot int) error {
	return c.replace(slot, func(replica int) error {
		_, err := c.servers.Do(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
		return err
	})
}

// replace has the replica of a slot's owner replace it.
func (c *Cluster) replace(slot int, act func(replica int) error) error {
	owner, err := c.Master(slot)
	if err != nil {
		return err
	}
	replica := c.replicaOf(owner)
	if err := act(replica); err != nil {
		return err
	}
	return c.awaitOwner(slot, replica)
}

// Master returns the number of the server that has a slot. It is the one that most servers name
// which answer and are not cut off.
func (c *Cluster) Master(slot int) (owner int, err error) {
	votes := make([]int, c.servers.Len())
	for i, b := range c.buses {
		if owner, err := c.Owner(i, slot); err == nil && owner >= 0 && !b.isCut() {
			votes[owner]++
		}
	}
	owner = slices.Index(votes, slices.Max(votes))
	if votes[owner] == 0 {
		return 0, errors.New("lockpipetest: no server answers")
	}
	return owner, nil
}

// awaitOwner returns when all servers that answer and are not cut off name the owner of a slot.
func (c *Cluster) awaitOwner(slot, owner int) error {
	return await(func() error {
		for i, b := range c.buses {
			if b.isCut() {
				continue
			}
			if now, err := c.Owner(i, slot); err == nil && now != owner {
				return fmt.Errorf("lockpipetest: server %d names %d as the owner of slot %d", i, now,
					slot)
			}
		}
		return nil
	})
}

// Cut cuts servers off from all other servers, and not from each other and from clients: so they
// do not learn that they are deposed. Servers without a majority of the masters stop to serve
// clients on their own after fifteen seconds. Cut without servers ends that.
func (c *Cluster) Cut(servers ...int) {
	cut := map[string]bool{}
	for _, i := range servers {
		cut[c.ids[i]] = true
	}
	for _, b := range c.buses {
		b.setCut(cut)
	}
}

// MoveSlot moves a slot with its keys to the server that owns another slot, as redis-cli --cluster
// reshard does. It returns when all servers name the new owner.
func (c *Cluster) MoveSlot(slot, toOwnerOf int) error {
	from, err := c.Master(slot)
	if err != nil {
		return err
	}
	to, err := c.Master(toOwnerOf)
	if err != nil || from == to {
		return err
	}
	number := strconv.Itoa(slot)
	importing := []string{"CLUSTER", "SETSLOT", number, "IMPORTING", c.ids[from]}
	if _, err := c.servers.Do(to, importing...); err != nil {
		return err
	}
	migrating := []string{"CLUSTER", "SETSLOT", number, "MIGRATING", c.ids[to]}
	if _, err := c.servers.Do(from, migrating...); err != nil {
		return err
	}
	host, port, _ := strings.Cut(c.addr(to), ":")
	for {
		reply, err := c.servers.Do(from, "CLUSTER", "GETKEYSINSLOT", number, "100")
		if err != nil {
			return err
		}
		keys, _ := reply.([]any)
		if len(keys) == 0 {
			break
		}
		move := []string{"MIGRATE", host, port, "", "0", "10000", "KEYS"}
		for _, key := range keys {
			move = append(move, fmt.Sprint(key))
		}
		if _, err := c.servers.Do(from, move...); err != nil {
			return err
		}
	}
	for _, i := range []int{to, from} {
		if _, err := c.servers.Do(i, "CLUSTER", "SETSLOT", number, "NODE", c.ids[to]); err != nil {
			return err
		}
	}
	return c.awaitOwner(slot, to)
}
