package bench

import (
	"errors"
	"fmt"
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
			remedy := err.Error() + "; give local:N, inprocess:N, or URLs such as redis://host:6379 with commas between them"
			return nodePlan{}, &ConfigError{Field: "Nodes", Value: redacted(url), Remedy: remedy}
		}
		plan.urls = append(plan.urls, url)
		plan.endpoints = append(plan.endpoints, node)
	}
	return plan, nil
}

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

// open starts the nodes that the plan says to start, and returns the plan with their URLs, what they are ("redis-server",
// "in-process" or "external"), and what stops them.
func (p nodePlan) open() (opened nodePlan, backend string, stop func() error, err error) {
	if p.start == 0 {
		return p, "external", func() error { return nil }, nil
	}
	start := lockpipetest.Start
	if p.inProcess {
		start = lockpipetest.StartInProcess
	}
	nodes, err := start(p.start)
	if err != nil {
		return nodePlan{}, "", nil, fmt.Errorf("start nodes: %w", err)
	}
	for _, url := range nodes.URLs() {
		node, err := parseEndpoint(url)
		if err != nil {
			return nodePlan{}, "", nil, errors.Join(fmt.Errorf("started node %s: %w", url, err), nodes.Close())
		}
		p.urls = append(p.urls, url)
		p.endpoints = append(p.endpoints, node)
	}
	return p, nodes.Backend(), nodes.Close, nil
}
