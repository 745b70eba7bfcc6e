package parts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/layout"
)

// Config says which nodes there are.
type Config struct {
	// Groups are the groups of nodes, by their URLs, and Next those that the fleet is moving to;
	// nil if it does not move.
	Groups, Next []layout.Group
	// Field returns the name of the field that has the nodes of a group, for errors: of Next, or of
	// Groups.
	Field func(next bool, group int) string
	// TLS is multiplex.Config.TLS.
	TLS *tls.Config
}

// Nodes are the nodes of a configuration, each with a name.
type Nodes struct {
	cfg       Config
	layout    *layout.Layout
	urls      map[string]string // of each name, as the user has given it
	names     map[string]string // of each identity
	databases map[string]int    // of each name
}

// Read reads the nodes. A node that is in both layouts is there once. The error names the field of
// a node that is no master's URL, or is in one layout twice.
func Read(cfg Config) (*Nodes, error) {
	n := &Nodes{
		cfg: cfg, urls: make(map[string]string), names: make(map[string]string),
		databases: make(map[string]int),
	}
	groups, err := n.read(cfg.Groups, false)
	if err != nil {
		return nil, err
	}
	next, err := n.read(cfg.Next, true)
	if err != nil {
		return nil, err
	}
	if len(next) > 0 && layout.ID(groups) == layout.ID(next) {
		return nil, errors.New("Config.Next has the same groups of the same nodes as the present " +
			"layout: leave it out; the fleet has moved")
	}
	n.layout, err = layout.New(groups, next)
	if err != nil {
		return nil, fmt.Errorf("Config.Groups and Config.Next %w", err)
	}
	return n, nil
}

// Groups returns how many multiplex.Mux the nodes need.
func (n *Nodes) Groups() int { return len(n.layout.Muxes) }

// field names the field of the first node of a Mux.
func (n *Nodes) field(mux int) string {
	name := n.layout.Muxes[mux].Groups[0]
	same := func(g layout.Group) bool { return g.Name == name }
	if i := slices.IndexFunc(n.cfg.Groups, same); i >= 0 {
		return n.cfg.Field(false, i)
	}
	return n.cfg.Field(true, slices.IndexFunc(n.cfg.Next, same))
}

// read returns the groups of one layout with the names of their nodes.
func (n *Nodes) read(groups []layout.Group, next bool) (named []layout.Group, err error) {
	field := func(group, node int) string {
		return fmt.Sprintf("%s[%d]", n.cfg.Field(next, group), node)
	}
	fields := make(map[string]string) // of each identity in this layout
	for g, group := range groups {
		of := layout.Group{Name: group.Name}
		for i, text := range group.Nodes {
			e, err := endpoint.Parse(text, n.cfg.TLS)
			if err != nil {
				return nil, fmt.Errorf("%s %w", field(g, i), err)
			}
			name := e.Name
			if e.Database != 0 {
				name += "/" + strconv.Itoa(e.Database)
			}
			for _, id := range e.Identities() {
				if first, twice := fields[id]; twice {
					return nil, fmt.Errorf("%s is the same master as %s (%s): list each once",
						field(g, i), first, e.Name)
				}
				known, ok := n.names[id]
				switch {
				case !ok:
				case n.databases[known] != e.Database:
					return nil, fmt.Errorf("%s is another database of %s: locks of the two do not "+
						"exclude each other: give the same one", field(g, i), known)
				default:
					name = known
				}
			}
			for _, id := range e.Identities() {
				fields[id], n.names[id] = field(g, i), name
			}
			if _, known := n.urls[name]; !known {
				n.urls[name], n.databases[name] = text, e.Database
			}
			of.Nodes = append(of.Nodes, name)
		}
		named = append(named, of)
	}
	return named, nil
}
