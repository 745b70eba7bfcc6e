package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
)

// redisCluster makes the nodes of a run the servers of one Redis Cluster. The clients have its URL,
// and some slots are what other clients have as nodes.
//
// Each server knows by itself who has which slot, and hears of others now and then. A claim counts
// if it has a higher epoch than the one that is known. So two servers may both act as the owner of
// a slot, each for those who have heard of it.
type redisCluster struct {
	run     *run
	numbers []int    // of the slots: first those of the clients, and then one more of each server
	tags    []string // of the keys in the clients' slots

	changing sync.Mutex // is held while roles or data of servers change, before locks of nodes

	mu      sync.Mutex // guards all below and the servers; a leaf, which is taken in a node's lock
	servers []*shard
	sides   [nodes]int // of a partition: servers on different sides don't hear of each other
	cutAt   time.Time  // when it began
}

// shard is a server and what it knows of all of them, by their numbers.
type shard struct {
	cluster *redisCluster
	number  int
	current int64        // the highest epoch that it has heard of
	epochs  [nodes]int64 // of their claims
	masters [nodes]int   // whose replicas they are; none: they are masters
	owners  []int        // of each slot, or none

	migrating map[int]int // the slots that it gives away, and to whom
	importing map[int]bool
	empty     bool // it became a replica, and needs a full copy
}

const none = -1

// clusterURL returns what the clients get as their nodes.
func (p *Plan) clusterURL(addresses []string) string {
	first := fmt.Sprintf("redis://%s?cluster=%d", addresses[0], p.slots)
	return strings.Join(append([]string{first}, addresses[1:]...), "&addr=")
}

// names returns what the clients call the slots.
func (c *redisCluster) names() (all []string) {
	for _, number := range c.numbers[:len(c.tags)] {
		all = append(all, fmt.Sprint("slot-", number))
	}
	return all
}

// newCluster makes a cluster of the nodes: masters, and replicas of some of them.
func newCluster(r *run) *redisCluster {
	c := &redisCluster{run: r}
	all, err := endpoint.Parse(r.plan.clusterURL(r.addresses), nil, 0)
	if err != nil {
		panic(err)
	}
	for _, e := range all.Nodes() {
		c.numbers, c.tags = append(c.numbers, e.Slot), append(c.tags, e.Tag)
	}
	for i, n := range r.nodes {
		c.numbers = append(c.numbers, i)
		s := &shard{
			cluster: c, number: i, current: nodes, migrating: map[int]int{},
			importing: map[int]bool{},
		}
		c.servers = append(c.servers, s)
		n.Cluster = s
	}
	for _, s := range c.servers {
		for i := range nodes {
			s.epochs[i], s.masters[i] = int64(i+1), none
			if i >= r.plan.masters {
				s.masters[i] = r.plan.replicaOf[i]
			}
		}
		for slot := range c.numbers {
			owner := slot % r.plan.masters
			if home := slot - len(c.tags); home >= 0 {
				owner = home
			}
			if s.masters[owner] != none {
				owner = none
			}
			s.owners = append(s.owners, owner)
		}
	}
	for i, master := range c.servers[0].masters {
		if master != none {
			r.nodes[i].Follow(r.nodes[master].KeysFor(r.nodes[i]))
		}
	}
	return c
}

// Nodes returns what the server knows of all.
func (s *shard) Nodes() string {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	for i, address := range c.run.addresses {
		flags, master := "master", "-"
		if i == s.number {
			flags = "myself,master"
		}
		if of := s.masters[i]; of != none {
			flags, master = strings.Replace(flags, "master", "slave", 1), serverID(of)
		}
		fmt.Fprintf(&text, "%s %s@16379 %s %s 0 0 %d connected", serverID(i), address, flags,
			master, s.epochs[i])
		for slot, owner := range s.owners {
			if owner == i {
				fmt.Fprint(&text, " ", c.numbers[slot])
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

func serverID(i int) string { return fmt.Sprintf("%040d", i) }

// Route says what the server does with commands for the keys of a slot.
func (s *shard) Route(tag string) (to memorynode.Route) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := slices.Index(c.tags, "{"+tag+"}")
	if slot < 0 {
		panic("a client uses another slot: " + tag)
	}
	redirection := func(kind string, server int) string {
		return fmt.Sprint(kind, " ", c.numbers[slot], " ", c.run.addresses[server])
	}
	owner := s.owners[slot]
	target, moves := s.migrating[slot]
	switch {
	case owner == none || c.isDown(s):
		to.Refusal = "CLUSTERDOWN The cluster is down"
	case owner != s.number:
		to.Refusal = redirection("MOVED", owner)
	case moves:
		to.Ask = redirection("ASK", target)
	}
	return to
}

// anyMaster returns a server that is a master as it knows it.
func (c *redisCluster) anyMaster(rng *rand.Rand) (master int) {
	for _, i := range rng.Perm(nodes) {
		if master = i; c.masterOf(i) == none {
			break
		}
	}
	return master
}

// anyReplica returns a replica and its master, if there is one.
func (c *redisCluster) anyReplica(rng *rand.Rand) (replica, master int) {
	for _, i := range rng.Perm(nodes) {
		if replica, master = i, c.masterOf(i); master != none {
			break
		}
	}
	return replica, master
}

// masterOf returns of whom a server is a replica as it knows it, or none.
func (c *redisCluster) masterOf(server int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[server].masters[server]
}

// owner returns the server with the highest claim to a slot, or none.
func (c *redisCluster) owner(slot int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	best := none
	for i, s := range c.servers {
		if s.owners[slot] == i && (best == none || s.epochs[i] > c.servers[best].epochs[best]) {
			best = i
		}
	}
	return best
}

// guardKey returns what the guard's key of a slot is at its owner.
func (c *redisCluster) guardKey(slot int) (text string, until time.Time) {
	if owner := c.owner(slot); owner != none {
		return c.run.nodes[owner].KeyUntil(c.tags[slot] + prefix + ids.AdmittedKey)
	}
	return "", time.Time{}
}

// keyUntil returns the value of a key in a slot and until when it lasts. While the slot moves, that
// is on either server.
func (c *redisCluster) keyUntil(slot int, key string) (value string, until time.Time) {
	for i, n := range c.run.nodes {
		if c.masterOf(i) != none {
			continue
		}
		if v, end := n.KeyUntil(c.tags[slot] + key); end.After(until) {
			value, until = v, end
		}
	}
	return value, until
}

// place returns the slot of a key, and the key without its tag.
func (c *redisCluster) place(key string) (slot int, name string) {
	end := strings.Index(key, "}") + 1
	return slices.Index(c.tags, key[:end]), key[end:]
}

// views returns what the servers know, for the history.
func (c *redisCluster) views() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, s := range c.servers {
		all = append(all, fmt.Sprint(s.owners[:len(c.tags)], " epoch ", s.epochs[s.number], " of ",
			s.masters[s.number], " moves ", slices.Sorted(maps.Keys(s.migrating))))
	}
	return strings.Join(all, "; ")
}

// checkServers wants so many servers of a cluster to have taken the keys of a lease that they are a
// quorum: two slots on one server have one vote.
func (r *run) checkServers(h *hold) {
	for _, key := range h.keys {
		if r.cluster != nil && !r.plan.mix.Blind {
			of := slot{prefix + key, h.lease.Token()}
			if n := r.history.serversOf(of); n <= len(r.cluster.tags)/2 {
				r.history.violation("%s holds %s, and %d servers have granted it", h.who, key, n)
			}
		}
	}
}
