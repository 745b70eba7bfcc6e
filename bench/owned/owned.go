// Package owned finds the locks that an owner has on the nodes, and frees them: for people who know
// that the owner's process is dead. It prints nothing; the command loadgen does.
package owned

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/bench/process"
)

// Config says what Run looks for, and where.
type Config struct {
	Nodes  string // the URLs of all nodes, as in bench.Config
	Prefix string // as in lockpipe.Config
	Owner  string // as in lockpipe.KeyStatus
	// Free: delete what is found. Otherwise Run only reads.
	Free bool
}

// Key is a key that the owner has.
type Key struct {
	Key   string  `json:"key"`    // without the prefix
	Nodes int     `json:"nodes"`  // how many nodes have it for the owner
	LeftS float64 `json:"left_s"` // seconds until the last node frees it; below 0: never
	// Freed is on how many nodes it was deleted. If that is below Nodes, a node did not answer, or
	// the value had changed.
	Freed int `json:"freed"`
}

// Report is what Run found.
type Report struct {
	Version string `json:"version"` // of lockpipe
	Nodes   string `json:"nodes"`   // as in bench.ReportConfig
	Size    int    `json:"-"`       // how many nodes that are
	Owner   string `json:"owner"`
	Keys    []Key  `json:"keys"` // by their names
	// Kept is how many keys Lease.Keep has left for the owner. They outlive their process on
	// purpose, so Run does not free them.
	Kept int `json:"kept"`
	// Others are the other owners of locks with the prefix.
	Others []string `json:"others"`
}

// Run looks on all nodes for keys of the owner and, if Free is set, deletes those that still have
// exactly the value that it read. An error without a Report is a *bench.ConfigError. One with a
// Report is about nodes that have not answered; the Report is of the others.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	plan, err := nodes.Parse(cfg.Nodes)
	var wrong *nodes.Error
	if errors.As(err, &wrong) {
		return nil, &bench.ConfigError{Field: "Nodes", Value: wrong.Value, Remedy: wrong.Remedy}
	}
	if err != nil {
		return nil, err
	}
	if !plan.External() {
		return nil, &bench.ConfigError{Field: "Nodes", Value: plan.String(), Remedy: "nodes that " +
			"are started here have no locks yet; give the URLs of all nodes, with commas between " +
			"them"}
	}
	opened, err := plan.Open()
	if err != nil {
		return nil, err
	}
	all := make([]node, plan.Size())
	for i := range all {
		all[i].Endpoint = opened.Endpoints[i]
	}
	each(all, func(n *node) { n.locks, n.err = check.FindOwned(ctx, n.Endpoint, cfg.Prefix) })
	r := &Report{
		Version: process.Version(), Nodes: plan.String(), Size: plan.Size(), Owner: cfg.Owner,
	}
	r.divide(all)
	if cfg.Free {
		each(all, func(n *node) {
			if n.err == nil && len(n.held) > 0 {
				n.freed, n.err = check.Free(ctx, n.Endpoint, n.held)
			}
		})
	}
	r.count(all, cfg.Prefix)
	for _, n := range all {
		if n.err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", n.Name(), n.err))
		}
	}
	return r, err
}

// node is one node, and what it has.
type node struct {
	check.Endpoint
	locks []check.Owned // of all owners
	held  []check.Owned // those that the owner holds
	freed []check.Owned // what was deleted of these
	err   error
}

// each runs do for all nodes at once.
func each(all []node, do func(n *node)) {
	var asking sync.WaitGroup
	for i := range all {
		asking.Go(func() { do(&all[i]) })
	}
	asking.Wait()
}

// divide divides the locks into those that the owner holds and the others. A key that is kept on
// some node is held on none: Keep may have missed a node.
func (r *Report) divide(all []node) {
	kept, others := make(map[string]bool), make(map[string]bool)
	for _, n := range all {
		for _, o := range n.locks {
			switch {
			case o.Owner != r.Owner:
				others[o.Owner] = true
			case o.Kept:
				kept[o.Key] = true
			}
		}
	}
	for i := range all {
		for _, o := range all[i].locks {
			if o.Owner == r.Owner && !kept[o.Key] {
				all[i].held = append(all[i].held, o)
			}
		}
	}
	r.Kept, r.Others = len(kept), slices.Sorted(maps.Keys(others))
}

// count adds up, for each key, what the nodes have and what was deleted.
func (r *Report) count(all []node, prefix string) {
	keys := make(map[string]*Key)
	for _, n := range all {
		for _, o := range n.held {
			k := keys[o.Key]
			if k == nil {
				k = &Key{Key: strings.TrimPrefix(o.Key, prefix)}
				keys[o.Key] = k
			}
			k.Nodes++
			if k.LeftS >= 0 && (o.Left < 0 || o.Left.Seconds() > k.LeftS) {
				k.LeftS = o.Left.Seconds()
			}
		}
		for _, o := range n.freed {
			keys[o.Key].Freed++
		}
	}
	r.Keys = make([]Key, 0, len(keys))
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		r.Keys = append(r.Keys, *keys[name])
	}
}
