package preflight

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inCluster returns n nodes in a Redis Cluster with so many masters.
func inCluster(n, shards int) (all []Facts) {
	for i := range n {
		node := healthy(i)
		node.Node, node.SlotOf, node.Shards = fmt.Sprintf("slot-%d@cfg:6379", i), n, shards
		node.Info["redis_mode"], node.Info["connected_slaves"] = "cluster", "1"
		node.Settings["cluster-node-timeout"] = "15000"
		node.Settings["cluster-require-full-coverage"] = "no"
		all = append(all, node)
	}
	return all
}

// Goal: of a Redis Cluster are said, once for all nodes, how many masters it has, which number of
// nodes fits, and what the loss of a master costs. A healthy one has no warning.
func TestClusters_WhatIsSaidOnceForAllNodes(t *testing.T) {
	const timeout = "the Redis Cluster at cfg:6379 replaces a master that does not answer for 15000 " +
		"ms (cluster-node-timeout); then its node has no vote for MaxTTL (1m0s) and some five seconds"
	said := func(nodes []Facts) (texts []string) {
		for _, f := range check(Config{MaxTTL: time.Minute}, nodes) {
			if f.Node == "" {
				texts = append(texts, f.Severity.String()+": "+f.Text)
			}
		}
		return texts
	}
	for _, c := range []struct {
		nodes, shards int
		want          string
	}{
		{3, 3, ""},
		{3, 4, ""},
		{3, 6, "info: the Redis Cluster at cfg:6379 has 6 masters with slots, so up to cluster=5 is " +
			"possible (now cluster=3)"},
		{5, 40, "info: the Redis Cluster at cfg:6379 has 40 masters with slots, so up to cluster=15 " +
			"is possible (now cluster=5)"},
		{3, 2, "error: the Redis Cluster at cfg:6379 has 2 masters with slots, fewer than the 3 " +
			"nodes that it stands for, and one server has one vote: add masters, or have all clients " +
			"use cluster=1"},
		{5, 4, "error: the Redis Cluster at cfg:6379 has 4 masters with slots, fewer than the 5 " +
			"nodes that it stands for, and one server has one vote: add masters, or have all clients " +
			"use cluster=3"},
	} {
		want := []string{c.want, "info: " + timeout}
		if c.want == "" {
			want = want[1:]
		}
		require.Equal(t, want, said(inCluster(c.nodes, c.shards)))
	}
	one := said(inCluster(1, 1))
	require.Equal(t, "info: "+timeout, one[0])
	require.Contains(t, one[1]+one[2], "one node is all there is: without it nobody gets a lock")
	require.Equal(t, Info, worst(check(Config{
		MaxTTL: time.Minute, NodeTimeout: 50 * time.Millisecond,
	}, inCluster(3, 3))))
}

// Goal: a cluster that refuses all while a slot has no master, and a master without a replica, are
// reported with what to do.
func TestClusters_WhatMakesTheLossOfAMasterWorse(t *testing.T) {
	nodes := inCluster(3, 3)
	nodes[0].Settings["cluster-require-full-coverage"] = "yes"
	nodes[2].Info["connected_slaves"] = "0"
	all := check(Config{MaxTTL: time.Minute}, nodes)
	require.True(t, slices.Contains(all, Finding{"", Warning, "the Redis Cluster at cfg:6379 refuses " +
		"all locks while any of its slots has no master: set cluster-require-full-coverage no on " +
		"all servers"}))
	require.True(t, slices.Contains(all, Finding{"slot-2@cfg:6379", Warning, "has no replica: if it " +
		"is lost, nobody has its slots until it is back"}))
	nodes[2].SlotOf = 0
	nodes[2].Info["redis_mode"] = "standalone"
	require.NotContains(t, check(Config{MaxTTL: time.Minute}, nodes), Finding{
		"slot-2@cfg:6379", Warning,
		"has no replica: if it is lost, nobody has its slots until it is back",
	})
}

// Goal: two slots on one server are an error of the node without a vote, which names the other one.
func TestClusters_SlotsThatShareAServer(t *testing.T) {
	nodes := inCluster(3, 3)
	nodes[2].Info["run_id"] = nodes[0].Info["run_id"]
	all := check(Config{MaxTTL: time.Minute}, nodes)
	require.True(t, slices.Contains(all, Finding{"slot-2@cfg:6379", Error, "is on the server of " +
		"slot-0@cfg:6379 (run_id run a), and one server has one vote: move one of the slots to " +
		"another master (CLUSTER SETSLOT, MIGRATE)"}))
}
