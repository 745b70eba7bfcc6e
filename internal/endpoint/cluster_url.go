package endpoint

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxCluster is the most nodes of one Redis Cluster: each costs every lock a trip.
	MaxCluster = 15
	// usualCluster is how many nodes of a Redis Cluster there are if the URL does not say.
	usualCluster = 3
	clusterPort  = "6379"
)

// Nodes returns the nodes that the endpoint stands for: itself, or those of its Redis Cluster.
func (e *Endpoint) Nodes() (all []*Endpoint) {
	if e.Cluster == 0 {
		return []*Endpoint{e}
	}
	for i := range e.Cluster {
		node := *e
		node.Slot = slotOf(i, e.Cluster)
		node.Tag, node.MasterSet = tagOf(node.Slot), fmt.Sprintf("slot-%d", node.Slot)
		node.Sentinels = slices.Clone(e.Sentinels)
		node.setNames()
		all = append(all, &node)
	}
	return all
}

// readCluster reads the parameters of a Redis Cluster: see Nodes.
func (e *Endpoint) readCluster(u *url.URL) (err error) {
	query := u.Query()
	e.Cluster = usualCluster
	if value := strings.Join(query["cluster"], "&"); value != "" {
		e.Cluster, err = strconv.Atoi(value)
	}
	switch n := e.Cluster; {
	case err != nil || n < 1 || n > MaxCluster || n%2 == 0:
		return badURL(fmt.Sprintf("cluster is not an odd number from 1 to %d: give cluster=3, if "+
			"the cluster has three masters or more", MaxCluster))
	case query.Has("master_set"):
		return badURL("it has cluster and master_set: give the one that the servers are")
	case e.Database != 0:
		return badURL("a Redis Cluster has only the database 0: leave the database out")
	}
	seed := Endpoint{
		Network: "tcp", User: e.User, Password: e.Password, TLS: e.TLS, ClientName: e.ClientName,
		DialTimeout: e.DialTimeout,
	}
	return e.readSentinels(u, &seed, "server", clusterPort)
}
