package check

import "github.com/lockpipe/lockpipe/internal/endpoint"

// Endpoint is how the checks reach one node. ParseEndpoint makes it.
type Endpoint struct{ node *endpoint.Endpoint }

// ParseEndpoint reads the URL of a node, which means here what it means to a Client. That of a
// Redis Cluster is its first node. Its errors hold neither user nor password.
func ParseEndpoint(text string) (Endpoint, error) {
	texts, err := endpoint.Expand([]string{text})
	if err != nil {
		return Endpoint{}, err
	}
	node, err := endpoint.Parse(texts[0], nil, 0)
	return Endpoint{node}, err
}

// Name returns host:port, the path of a socket, or set@host:port for a master by Sentinel.
func (e Endpoint) Name() string { return e.node.Name }
