package preflight

import (
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// ConfigOf returns what an inspection needs of the nodes. m is the client's; nil: there is none.
func ConfigOf(nodes *parts.Nodes, m *parts.Mux) Config {
	cfg := &nodes.Config
	to := Config{
		Credentials: cfg.Credentials, Dial: cfg.Dial, Logger: cfg.Logger, Prefix: cfg.Prefix,
		Guard: cfg.Guard, MaxTTL: cfg.MaxTTL, NodeTimeout: cfg.NodeTimeout,
		Layouts: nodes.Layouts, Owner: cfg.Owner,
	}
	for i, site := range nodes.Layout.Sites {
		for _, set := range quorum.Distinct(site.Systems...) {
			to.Sizes = append(to.Sizes, set.Count())
		}
		for _, name := range site.Nodes {
			to.Endpoints = append(to.Endpoints, nodes.Endpoints[name])
		}
		if m != nil {
			to.Links = append(to.Links, m.Muxes[i].Links()...)
		}
	}
	return to
}
