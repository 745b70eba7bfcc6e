// Package nodes reads which nodes a run uses, and starts those that are not there yet.
package nodes

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// InProcess is what Nodes.Backend returns for nodes in this process.
const InProcess = "in-process"

// maxStarted is the most nodes that a run starts.
const maxStarted = 31

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
	start     int // how many nodes to start; 0: they are external
	inProcess bool
	urls      []string
	endpoints []check.Endpoint
}

// Parse reads "local:N", "inprocess:N", or URLs with commas between them. Its error is an *Error.
func Parse(text string) (Plan, error) {
	for _, kind := range []string{"local", "inprocess"} {
		count, ok := strings.CutPrefix(text, kind+":")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > maxStarted {
			remedy := fmt.Sprintf("give %s:N with N from 1 to %d", kind, maxStarted)
			return Plan{}, &Error{Value: text, Remedy: remedy}
		}
		return Plan{start: n, inProcess: kind == "inprocess"}, nil
	}
	var plan Plan
	for i, url := range strings.Split(text, ",") {
		url = strings.TrimSpace(url)
		node, err := check.ParseEndpoint(url)
		if err != nil {
			const remedy = "give local:N, inprocess:N, or URLs such as redis://host:6379 with " +
				"commas between them, and %2C for one in a password"
			return Plan{}, &Error{
				Value: fmt.Sprintf("entry %d", i+1), Remedy: err.Error() + "; " + remedy,
			}
		}
		plan.urls = append(plan.urls, url)
		plan.endpoints = append(plan.endpoints, node)
	}
	return plan, nil
}

// Size returns how many nodes there will be.
func (p Plan) Size() int { return max(p.start, len(p.urls)) }

// StartsServers reports whether Open starts redis-servers, if there is a redis-server.
func (p Plan) StartsServers() bool { return p.start > 0 && !p.inProcess }

// External reports whether the nodes are there already.
func (p Plan) External() bool { return p.start == 0 }

// String returns the plan as a report may show it: without users and passwords.
func (p Plan) String() string {
	switch {
	case p.start > 0 && p.inProcess:
		return "inprocess:" + strconv.Itoa(p.start)
	case p.start > 0:
		return "local:" + strconv.Itoa(p.start)
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
	// URLs has the nodes in order, for Clients, and Endpoints the same, for checks.
	URLs      []string
	Endpoints []check.Endpoint
	// Started are the nodes that Open started, or nil.
	Started *lockpipetest.Nodes
}

// Open starts the nodes that the plan asks for. Close them.
func (p Plan) Open() (*Nodes, error) {
	n := &Nodes{Plan: p, URLs: p.urls, Endpoints: p.endpoints}
	if p.start == 0 {
		return n, nil
	}
	start := lockpipetest.Start
	if p.inProcess {
		start = lockpipetest.StartInProcess
	}
	var err error
	if n.Started, err = start(p.start); err != nil {
		return nil, fmt.Errorf("start nodes: %w", err)
	}
	for _, url := range n.Started.URLs() {
		node, err := check.ParseEndpoint(url)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("started node %s: %w", url, err), n.Close())
		}
		n.URLs = append(n.URLs, url)
		n.Endpoints = append(n.Endpoints, node)
	}
	return n, nil
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
	case n.Plan.inProcess:
		return fmt.Sprintf("The nodes are in the memory of this process and share its CPUs, as %v "+
			"asks. For real servers give local:%d, which needs a redis-server on the PATH, or URLs.",
			n.Plan, n.Plan.start)
	}
	return "The nodes are in the memory of this process and share its CPUs: no redis-server is on " +
		"the PATH. For real servers install one (" + Install + ") or give -nodes URLs."
}

// Close stops the nodes that Open started.
func (n *Nodes) Close() error {
	if n.Started == nil {
		return nil
	}
	return n.Started.Close()
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
