package endpoint

import (
	"fmt"
	"net/url"
	"regexp"
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

// clusterOf finds the parameter of a URL that names a Redis Cluster.
var clusterOf = regexp.MustCompile(`^([^?]*\?(?:[^#]*&)?cluster)(=[^&#]*)?((?:[&#].*)?)$`)

// Expand returns one text for each node. A Redis Cluster, which has to be the only entry of a list,
// stands for several nodes: that text is also what Parse gets for each.
func Expand(texts []string) (all []string, err error) {
	for _, text := range texts {
		found := clusterOf.FindStringSubmatch(strings.TrimSpace(text))
		if found == nil {
			continue
		}
		n := usualCluster
		if value := strings.TrimPrefix(found[2], "="); value != "" {
			n, err = strconv.Atoi(value)
		}
		switch {
		case err != nil || n < 1 || n > MaxCluster || n%2 == 0:
			return nil, fmt.Errorf("is not usable: cluster is not an odd number from 1 to %d: give "+
				"cluster=3, if the cluster has three masters or more", MaxCluster)
		case len(texts) > 1:
			return nil, fmt.Errorf("is a Redis Cluster, and there are %d entries: a cluster is the "+
				"only entry; give its other addresses as addr=host:port in the same URL", len(texts))
		}
		for i := range n {
			all = append(all, fmt.Sprintf("%s=%dof%d%s", found[1], i, n, found[3]))
		}
		return all, nil
	}
	return texts, nil
}

// readCluster reads the parameters of a node that is a slot of a Redis Cluster.
func (e *Endpoint) readCluster(u *url.URL) error {
	query := u.Query()
	var i, n int
	if _, err := fmt.Sscanf(query.Get("cluster"), "%dof%d", &i, &n); err != nil || i < 0 || i >= n {
		return badURL("cluster stands for several nodes, and one was wanted")
	}
	switch {
	case query.Has("master_set"):
		return badURL("it has cluster and master_set: give the one that the servers are")
	case e.Database != 0:
		return badURL("a Redis Cluster has only the database 0: leave the database out")
	}
	e.Cluster, e.Slot = n, slotOf(i, n)
	e.Tag = tagOf(e.Slot)
	e.MasterSet = fmt.Sprintf("slot-%d", e.Slot)
	seed := Endpoint{
		Network: "tcp", User: e.User, Password: e.Password, TLS: e.TLS, ClientName: e.ClientName,
		DialTimeout: e.DialTimeout,
	}
	return e.readSentinels(u, &seed, "server", clusterPort)
}
