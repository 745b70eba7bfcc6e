package check

import "github.com/lockpipe/lockpipe/internal/endpoint"

// Endpoint is how the checks reach one node. ParseEndpoint makes it.
type Endpoint struct{ node *endpoint.Endpoint }

// ParseEndpoint reads the URL of a node, which means here what it means to a Client. Its errors
// hold neither user nor password.
func ParseEndpoint(text string) (Endpoint, error) {
	all, err := ParseEndpoints(text)
	if err != nil {
		return Endpoint{}, err
	}
	return all[0], nil
}

// ParseEndpoints is ParseEndpoint for a URL that may be that of a Redis Cluster, which is several
// nodes.
func ParseEndpoints(text string) (all []Endpoint, err error) {
	e, err := endpoint.Parse(text, nil, 0)
	if err != nil {
		return nil, err
	}
	for _, node := range e.Nodes() {
		all = append(all, Endpoint{node})
	}
	return all, nil
}

// Slot returns the slot of a node in a Redis Cluster, and whether it is one.
func (e Endpoint) Slot() (slot int, inCluster bool) { return e.node.Slot, e.node.Cluster > 0 }

// Name returns host:port, the path of a socket, or set@host:port for a master by Sentinel.
func (e Endpoint) Name() string { return e.node.Name }
