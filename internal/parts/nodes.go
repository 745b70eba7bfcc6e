package parts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Config says which nodes there are, and what they are used with.
type Config struct {
	// Config is for each multiplex.Mux. New sets its Nodes, Systems and Fleet.
	multiplex.Config
	// The rest are those of lockpipe.Config.
	Nodes        []string
	TLS          *tls.Config
	DialTimeout  time.Duration
	Groups, Next []fleet.Group
	Owner        string
}

const (
	// maxGroups bounds the memory and the goroutines of a client.
	maxGroups = 64
	// maxName is the longest name of a group.
	maxName = 64
)

// Nodes are the nodes of a configuration, each with a name.
type Nodes struct {
	Config    Config
	Layout    *Layout
	Layouts   [][]fleet.Group               // one or two, as fleet.Sorted has them
	Endpoints map[string]*endpoint.Endpoint // of each name
	names     map[string]string             // of each identity
}

// Read reads and checks the nodes. A node that is in both layouts is there once. The error begins
// with the name of a field.
func Read(cfg Config) (*Nodes, error) {
	n := &Nodes{
		Config: cfg, names: make(map[string]string),
		Endpoints: make(map[string]*endpoint.Endpoint),
	}
	present, field := cfg.Groups, "Config.Groups"
	switch {
	case len(cfg.Nodes) == 0 && len(cfg.Groups) == 0:
		return nil, errors.New("Config.Nodes is empty: give one URL for each master")
	case len(cfg.Nodes) > 0 && len(cfg.Groups) > 0:
		return nil, errors.New("Config.Nodes and Config.Groups are both set: give the nodes of " +
			"the only group, or groups with their names")
	case len(cfg.Nodes) > 0:
		present, field = []fleet.Group{{Nodes: cfg.Nodes}}, ""
	}
	groups, err := n.read(present, field)
	if err != nil {
		return nil, err
	}
	next, err := n.read(cfg.Next, "Config.Next")
	if err != nil {
		return nil, err
	}
	if len(n.Layouts) > 1 && reflect.DeepEqual(n.Layouts[0], n.Layouts[1]) {
		return nil, errors.New("Config.Next has the same groups of the same nodes as the present " +
			"layout: leave it out; the fleet has moved")
	}
	n.Layout, err = NewLayout(groups, next)
	if err != nil {
		return nil, fmt.Errorf("Config.Groups and Config.Next %w", err)
	}
	return n, nil
}

// field returns the name of the field of a group's nodes. list is empty for Config.Nodes.
func field(list string, group int) string {
	if list == "" {
		return "Config.Nodes"
	}
	return fmt.Sprintf("%s[%d].Nodes", list, group)
}

// checkNames checks a list of groups with names.
func checkNames(list string, groups []fleet.Group) error {
	if len(groups) > maxGroups {
		return fmt.Errorf("%s has %d groups: give at most %d", list, len(groups), maxGroups)
	}
	for i, g := range groups {
		same := func(other fleet.Group) bool { return other.Name == g.Name }
		first := slices.IndexFunc(groups, same)
		switch {
		case g.Name == "":
			return fmt.Errorf("%s[%d].Name is empty: give each group a name that it keeps when "+
				"its nodes are replaced", list, i)
		case len(g.Name) > maxName:
			return fmt.Errorf("%s[%d].Name has %d bytes: give at most %d", list, i, len(g.Name),
				maxName)
		case first != i:
			return fmt.Errorf("%s[%d].Name is %q, and so is that of %s[%d]: give each group a "+
				"name of its own", list, i, g.Name, list, first)
		case len(g.Nodes) == 0:
			return fmt.Errorf("%s[%d].Nodes is empty: give group %q one URL for each master", list,
				i, g.Name)
		}
	}
	return nil
}

// read returns the groups of one layout with the names of their nodes. list is the name of the
// field that has the groups; empty for Config.Nodes.
func (n *Nodes) read(groups []fleet.Group, list string) (named []fleet.Group, err error) {
	if list != "" {
		if err := checkNames(list, groups); err != nil {
			return nil, err
		}
	}
	fields := make(map[string]string) // of each identity in this layout
	var given []fleet.Group           // for n.Layouts
	for g, group := range groups {
		in := field(list, g)
		if len(group.Nodes) > quorum.MaxNodes {
			return nil, fmt.Errorf("%s has %d entries: give at most %d", in, len(group.Nodes),
				quorum.MaxNodes)
		}
		own, all := fleet.Group{Name: group.Name}, fleet.Group{Name: group.Name}
		for i, text := range group.Nodes {
			field := fmt.Sprintf("%s[%d]", in, i)
			entry, err := endpoint.Parse(text, n.Config.TLS, n.Config.DialTimeout)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s %w", field, err)
			case entry.Cluster > 0 && len(group.Nodes) > 1:
				return nil, fmt.Errorf("%s is a Redis Cluster, and there are %d entries: a "+
					"cluster is the only entry; give its other addresses as addr=host:port in "+
					"the same URL", field, len(group.Nodes))
			case n.Config.Credentials != nil && (entry.User != "" || entry.Password != ""):
				return nil, fmt.Errorf("%s has a user or a password, and Config.Credentials is "+
					"set: leave one of the two out", field)
			}
			for _, e := range entry.Nodes() {
				name, err := n.name(e, field, fields)
				if err != nil {
					return nil, err
				}
				if n.Endpoints[name] == nil {
					n.Endpoints[name] = e
				}
				own.Nodes = append(own.Nodes, name)
				all.Nodes = append(all.Nodes, e.LayoutName())
			}
		}
		named, given = append(named, own), append(given, all)
	}
	if len(given) > 0 {
		n.Layouts = append(n.Layouts, fleet.Sorted(given))
	}
	return named, nil
}

// name returns the name of a node: that of the other layout, if the node is there too. fields has
// the field of each identity of the same layout, and gets those of the node.
func (n *Nodes) name(e *endpoint.Endpoint, field string, fields map[string]string) (string, error) {
	name := e.LayoutName()
	for _, id := range e.Identities() {
		first, twice := fields[id]
		known, other := n.names[id]
		switch {
		case twice:
			return "", fmt.Errorf("%s is the same master as %s (%s): list each once", field, first,
				e.Name)
		case other && n.Endpoints[known].Database != e.Database:
			return "", fmt.Errorf("%s is another database of %s: locks of the two do not exclude "+
				"each other: give the same one", field, known)
		case other:
			name = known
		}
	}
	for _, id := range e.Identities() {
		fields[id], n.names[id] = field, name
	}
	return name, nil
}
