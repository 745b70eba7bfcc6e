package lockpipe

import (
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/layout"
)

// layouts returns the IDs of the layouts that the Client uses. It is empty if a text is no node:
// then multiplex.New says why.
func (cfg *Config) layouts() []string {
	group := layout.Group{Nodes: make([]string, len(cfg.Nodes))}
	for i, text := range cfg.Nodes {
		if group.Nodes[i] = endpoint.LayoutName(text, cfg.TLS); group.Nodes[i] == "" {
			return nil
		}
	}
	return []string{layout.ID([]layout.Group{group})}
}
