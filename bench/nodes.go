package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// maxStarted is the most nodes that a run starts.
const maxStarted = 31

// nodePlan is Config.Nodes, understood.
type nodePlan struct {
	start     int // how many nodes to start; 0: they are external
	inProcess bool
	urls      []string
	endpoints []endpoint
	started   *lockpipetest.Nodes // nil where there is nothing to stop
	routes    *routes             // nil without faults
}

// parseNodes reads Config.Nodes. Its error is a *ConfigError.
func parseNodes(text string) (nodePlan, error) {
	for _, kind := range []string{"local", "inprocess"} {
		count, ok := strings.CutPrefix(text, kind+":")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > maxStarted {
			remedy := fmt.Sprintf("give %s:N with N from 1 to %d", kind, maxStarted)
			return nodePlan{}, &ConfigError{Field: "Nodes", Value: text, Remedy: remedy}
		}
		return nodePlan{start: n, inProcess: kind == "inprocess"}, nil
	}
	var plan nodePlan
	for url := range strings.SplitSeq(text, ",") {
		url = strings.TrimSpace(url)
		node, err := parseEndpoint(url)
		if err != nil {
			remedy := err.Error() + "; give local:N, inprocess:N, or URLs such as " +
				"redis://host:6379 with commas between them, and %2C for one in a password"
			shown := redacted(url)
			if shown == url && strings.ContainsAny(text, "@?#") { // it may be a piece of a password
				shown = fmt.Sprintf("entry %d", len(plan.urls)+1)
			}
			return nodePlan{}, &ConfigError{Field: "Nodes", Value: shown, Remedy: remedy}
		}
		plan.urls = append(plan.urls, url)
		plan.endpoints = append(plan.endpoints, node)
	}
	return plan, nil
}

// size is how many nodes there will be.
func (p nodePlan) size() int { return max(p.start, len(p.urls)) }

// describe is the nodes as a report may show them: without users and passwords.
func (p nodePlan) describe() string {
	switch {
	case p.start > 0 && p.inProcess:
		return "inprocess:" + strconv.Itoa(p.start)
	case p.start > 0:
		return "local:" + strconv.Itoa(p.start)
	}
	addresses := make([]string, len(p.endpoints))
	for i, node := range p.endpoints {
		addresses[i] = node.address
	}
	return strings.Join(addresses, ",")
}

// open starts the nodes that the plan says to start, and returns the plan with them and their URLs.
func (p nodePlan) open() (nodePlan, error) {
	if p.start == 0 {
		return p, nil
	}
	start := lockpipetest.Start
	if p.inProcess {
		start = lockpipetest.StartInProcess
	}
	var err error
	if p.started, err = start(p.start); err != nil {
		return nodePlan{}, fmt.Errorf("start nodes: %w", err)
	}
	for _, url := range p.started.URLs() {
		node, err := parseEndpoint(url)
		if err != nil {
			return nodePlan{}, errors.Join(fmt.Errorf("started node %s: %w", url, err), p.close())
		}
		p.urls = append(p.urls, url)
		p.endpoints = append(p.endpoints, node)
	}
	return p, nil
}

// dial is the Dial of the Clients, or nil if every address leads to its own server.
func (p nodePlan) dial() func(context.Context, string, string) (net.Conn, error) {
	if p.routes == nil {
		return nil
	}
	return p.routes.dial
}

// backend is what the nodes are: "redis-server", "in-process" or "external".
func (p nodePlan) backend() string {
	if p.started == nil {
		return "external"
	}
	return p.started.Backend()
}

// close stops what open started.
func (p nodePlan) close() error {
	if p.started == nil {
		return nil
	}
	return p.started.Close()
}
