package preflight

import (
	"strings"

	"github.com/lockpipe/lockpipe/internal/endpoint"
)

// checkClusters reports what is found about each Redis Cluster, once for all of its nodes.
func (f *findings) checkClusters(nodes []Facts) {
	told := ""
	for i := range nodes {
		_, seed, _ := strings.Cut(nodes[i].Node, "@")
		if nodes[i].Shards > 0 && seed != told {
			told = seed
			f.checkCluster(&nodes[i], "the Redis Cluster at "+seed)
		}
	}
}

// checkCluster reports how many nodes fit to a cluster, and what the loss of a master costs.
func (f *findings) checkCluster(node *Facts, name string) {
	fits := min(node.Shards-(node.Shards+1)%2, endpoint.MaxCluster)
	switch {
	case node.Shards < node.SlotOf:
		f.errorf("%s has %d masters with slots, fewer than the %d nodes that it stands for, and one "+
			"server has one vote: add masters, or have all clients use cluster=%d", name, node.Shards,
			node.SlotOf, fits)
	case fits > node.SlotOf:
		f.infof("%s has %d masters with slots, so up to cluster=%d is possible (now cluster=%d)",
			name, node.Shards, fits, node.SlotOf)
	}
	if timeout := node.Settings["cluster-node-timeout"]; timeout != "" {
		f.infof("%s replaces a master that does not answer for %s ms (cluster-node-timeout); then its "+
			"node has no vote for MaxTTL (%v) and some five seconds", name, timeout, f.cfg.MaxTTL)
	}
	if node.Settings["cluster-require-full-coverage"] == "yes" {
		f.warnf("%s refuses all locks while any of its slots has no master: set "+
			"cluster-require-full-coverage no on all servers", name)
	}
}
