// Package nodes reads which nodes a run uses, and starts those that are not there yet.
package nodes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// InProcess is what Nodes.Backend returns for nodes in this process.
const InProcess = "in-process"

// maxStarted is the most nodes that a run starts, and maxMasters the most masters of a cluster.
const maxStarted, maxMasters = 31, 7

// What a Plan starts.
const (
	local     = "local"
	inProcess = "inprocess"
	cluster   = "cluster"
)

// Error is a text that does not name nodes. It holds neither users nor passwords.
type Error struct {
	// Value is the text, or the part of it that is wrong.
	Value string
	// Remedy says what it should be.
	Remedy string
}

// Error names the text and the remedy.
func (e *Error) Error() string { return fmt.Sprintf("nodes %q: %s", e.Value, e.Remedy) }

// Plan is what a text asks for.
type Plan struct {
	start     int    // how many nodes to start; 0: they are external
	kind      string // what to start: local, inprocess or cluster
	urls      []string
	endpoints []check.Endpoint
}

// Parse reads "local:N", "inprocess:N", "cluster:N", or URLs with commas between them. Its error is
// an *Error.
func Parse(text string) (Plan, error) {
	kind, count, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(count)
	remedy := ""
	switch kind {
	case local, inProcess:
		if err != nil || n < 1 || n > maxStarted {
			remedy = fmt.Sprintf("give %s:N with N from 1 to %d", kind, maxStarted)
		}
	case cluster:
		if err != nil || n < 1 || n > maxMasters || n%2 == 0 {
			remedy = fmt.Sprintf("give %s:N with N masters: 3, or 1, 5 or %d", kind, maxMasters)
		}
	default:
		return parseURLs(text)
	}
	if remedy != "" {
		return Plan{}, &Error{Value: text, Remedy: remedy}
	}
	return Plan{start: n, kind: kind}, nil
}

// parseURLs is Parse for nodes that are there already.
func parseURLs(text string) (Plan, error) {
	var plan Plan
	for i, url := range strings.Split(text, ",") {
		url = strings.TrimSpace(url)
		nodes, err := check.ParseEndpoints(url)
		if err != nil {
			const remedy = "give local:N, inprocess:N, cluster:N, or URLs such as " +
				"redis://host:6379 with commas between them, and %2C for one in a password"
			return Plan{}, &Error{
				Value: fmt.Sprintf("entry %d", i+1), Remedy: err.Error() + "; " + remedy,
			}
		}
		plan.urls = append(plan.urls, url)
		plan.endpoints = append(plan.endpoints, nodes...)
	}
	return plan, nil
}

// Size returns how many nodes there will be.
func (p Plan) Size() int { return max(p.start, len(p.endpoints)) }

// StartsServers reports whether Open starts redis-servers, if there is a redis-server.
func (p Plan) StartsServers() bool { return p.start > 0 && p.kind != inProcess }

// External reports whether the nodes are there already.
func (p Plan) External() bool { return p.start == 0 }

// InCluster reports whether the nodes are slots of one Redis Cluster.
func (p Plan) InCluster() bool {
	if p.start > 0 {
		return p.kind == cluster
	}
	_, inCluster := p.endpoints[0].Slot()
	return inCluster
}

// CheckGroups returns "" if each of so many layouts has nodes for so many groups of one size; else
// what to give.
func (p Plan) CheckGroups(groups, layouts int) (remedy string) {
	size := p.Size() / layouts
	switch {
	case groups < 1:
		return "give at least 1"
	case groups > 1 && p.InCluster():
		return "a Redis Cluster is one group; leave it 1"
	case size%groups != 0:
		return fmt.Sprintf("%d nodes can't be divided into so many groups of one size; give a "+
			"divisor of %d, or other nodes", size, size)
	}
	return ""
}

// String returns the plan as a report may show it: without users and passwords.
func (p Plan) String() string {
	if p.start > 0 {
		return p.kind + ":" + strconv.Itoa(p.start)
	}
	names := make([]string, len(p.endpoints))
	for i, node := range p.endpoints {
		names[i] = node.Name()
	}
	return strings.Join(names, ",")
}

// Nodes are the nodes of a run.
type Nodes struct {
	// Plan is what they were opened by.
	Plan Plan
	// URLs has the nodes in order, for Clients, and Endpoints the same, for checks. A Redis Cluster
	// has one URL, and an endpoint for each node.
	URLs      []string
	Endpoints []check.Endpoint
	// Started are the servers that Open started, or nil.
	Started *lockpipetest.Nodes
	// Cluster is theirs, if they are in a Redis Cluster.
	Cluster *lockpipetest.Cluster

	dir string // of the cluster's servers
}

// Open starts the nodes that the plan asks for. Close them.
func (p Plan) Open() (*Nodes, error) {
	n := &Nodes{Plan: p, URLs: p.urls, Endpoints: p.endpoints}
	if p.start == 0 {
		return n, nil
	}
	var err error
	switch p.kind {
	case cluster:
		err = n.startCluster()
	case inProcess:
		n.Started, err = lockpipetest.StartInProcess(p.start)
	default:
		n.Started, err = lockpipetest.Start(p.start)
	}
	if err != nil {
		return nil, fmt.Errorf("start nodes: %w", err)
	}
	if n.URLs = n.Started.URLs(); n.Cluster != nil {
		n.URLs = []string{n.Cluster.URL()}
	}
	for _, url := range n.URLs {
		nodes, err := check.ParseEndpoints(url)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("started node %s: %w", url, err), n.Close())
		}
		n.Endpoints = append(n.Endpoints, nodes...)
	}
	return n, nil
}

// startCluster starts a Redis Cluster.
func (n *Nodes) startCluster() (err error) {
	if n.dir, err = os.MkdirTemp("", "lockpipe-cluster-"); err != nil {
		return err
	}
	n.Cluster, err = lockpipetest.StartClusterIn(n.dir, n.Plan.start)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		err = fmt.Errorf("%v needs a redis-server on the PATH, because nodes in the memory of this "+
			"process are no Redis Cluster: install one (%s): %w", n.Plan, Install, err)
		fallthrough
	case err != nil:
		return errors.Join(err, os.RemoveAll(n.dir))
	}
	n.Started = n.Cluster.Servers()
	return nil
}

// Backend returns what the nodes are: "redis-server", InProcess or "external".
func (n *Nodes) Backend() string {
	if n.Started == nil {
		return "external"
	}
	return n.Started.Backend()
}

// Install has the commands that install redis-server. Without it local:N is nodes in this process.
const Install = "apt-get install redis-server, brew install redis"

// Note returns two sentences about nodes in this process: what they are, and how a user gets
// servers instead. It is "" for other nodes.
func (n *Nodes) Note() string {
	switch {
	case n.Backend() != InProcess:
		return ""
	case n.Plan.kind == inProcess:
		return fmt.Sprintf("The nodes are in the memory of this process and share its CPUs, as %v "+
			"asks. For real servers give local:%d, which needs a redis-server on the PATH, or URLs.",
			n.Plan, n.Plan.start)
	}
	return "The nodes are in the memory of this process and share its CPUs: no redis-server is on " +
		"the PATH. For real servers install one (" + Install + ") or give -nodes URLs."
}

// Close stops the nodes that Open started.
func (n *Nodes) Close() error {
	switch {
	case n.Cluster != nil:
		return errors.Join(n.Cluster.Close(), os.RemoveAll(n.dir))
	case n.Started != nil:
		return n.Started.Close()
	}
	return nil
}

// Slots returns the slot of each node, if they are in a Redis Cluster.
func (n *Nodes) Slots() (all []int) {
	for _, e := range n.Endpoints {
		if slot, inCluster := e.Slot(); inCluster {
			all = append(all, slot)
		}
	}
	return all
}

// Redacted returns the URLs, with commas between them, without users, passwords and parameters.
func (n *Nodes) Redacted() string {
	shown := make([]string, len(n.URLs))
	for i, url := range n.URLs {
		shown[i] = redacted(url)
	}
	return strings.Join(shown, ",")
}

// redacted returns a node's URL without what is before the host, and without parameters: either may
// be a password, even in a text that is no valid URL.
func redacted(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		scheme, _, ok := strings.Cut(text[:at], "://")
		if ok {
			scheme += "://"
		} else {
			scheme = ""
		}
		if strings.ContainsAny(text[:at], "?#") { // what follows the @ may be of a parameter
			return scheme + "***"
		}
		text = scheme + "***" + text[at:]
	}
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end] + "?***"
	}
	return text
}
