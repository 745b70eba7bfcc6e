package parts

import (
	"github.com/lockpipe/lockpipe/internal/preflight"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// ToInspect returns what an inspection needs of the nodes. m is the client's; nil: there is none.
func (n *Nodes) ToInspect(m *Mux) preflight.Config {
	cfg := &n.Config
	to := preflight.Config{
		Credentials: cfg.Credentials, Dial: cfg.Dial, Logger: cfg.Logger, Prefix: cfg.Prefix,
		Guard: cfg.Guard, MaxTTL: cfg.MaxTTL, NodeTimeout: cfg.NodeTimeout,
		Layouts: n.Layouts, Owner: cfg.Owner,
	}
	for i, site := range n.Layout.Sites {
		for _, set := range quorum.Distinct(site.Systems...) {
			to.Sizes = append(to.Sizes, set.Count())
		}
		for _, name := range site.Nodes {
			to.Endpoints = append(to.Endpoints, n.Endpoints[name])
		}
		if m != nil {
			to.Links = append(to.Links, m.Muxes[i].Links()...)
		}
	}
	return to
}
