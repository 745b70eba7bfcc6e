package check

import "github.com/lockpipe/lockpipe/internal/endpoint"

// Endpoint is how the checks reach one node. ParseEndpoint makes it.
type Endpoint struct{ node *endpoint.Endpoint }

// ParseEndpoint reads the URL of a node, which means here what it means to a Client. Its errors
// hold neither user nor password.
func ParseEndpoint(text string) (Endpoint, error) {
	node, err := endpoint.Parse(text, nil, 0)
	return Endpoint{node}, err
}

// Name returns host:port, the path of a socket, or set@host:port for a master by Sentinel.
func (e Endpoint) Name() string { return e.node.Name }
