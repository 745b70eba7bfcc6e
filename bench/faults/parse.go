package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// every begins the item that asks for random faults.
	every = "every"
	// shortestInterval and maxFaults bound what is planned, and what a report lists.
	shortestInterval = 100 * time.Millisecond
	maxFaults        = 10_000
	// faultForm is in many remedies.
	faultForm = "give action:node@time or action:node@time+duration, such as freeze:1@2s+3s"
)

// Error is an item of a list of faults that can't be used.
type Error struct {
	// Item is its text.
	Item string
	// Remedy says what it should be.
	Remedy string
}

// Error names the item and the remedy.
func (e *Error) Error() string { return fmt.Sprintf("fault %q: %s", e.Item, e.Remedy) }

// Plan is a list of faults that Parse has read.
type Plan struct {
	list     []Fault       // as given
	interval time.Duration // between two random faults; 0: none
	cluster  bool          // the nodes are in a Redis Cluster
}

// Parse reads a list of faults for a run of so many nodes that lasts for a duration. cluster:
// the nodes are in a Redis Cluster. Items are such as freeze:1@2s+3s, with commas between them, and
// every:1s for random ones. Its error is an *Error.
func Parse(text string, nodes int, cluster bool, duration time.Duration) (Plan, error) {
	plan := Plan{cluster: cluster}
	if text == "" {
		return plan, nil
	}
	for i, item := range strings.Split(text, ",") {
		if remedy := plan.add(strings.TrimSpace(item), nodes, duration); remedy != "" {
			return Plan{}, &Error{Item: item, Remedy: fmt.Sprintf("fault %d: %s", i+1, remedy)}
		}
	}
	if err := checkOverlaps(plan.list); err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// add reads one item. It returns "" or what the item should be.
func (p *Plan) add(item string, nodes int, duration time.Duration) (remedy string) {
	name, rest, ok := strings.Cut(item, ":")
	if !ok {
		return faultForm + ", or every:1s"
	}
	if name == every {
		return p.addRandom(rest, duration)
	}
	possible := actionsIn(p.cluster)
	isNamed := func(a action) bool { return a.name == name }
	kind := slices.IndexFunc(possible, isNamed)
	switch {
	case kind < 0 && slices.ContainsFunc(actions, isNamed):
		return fmt.Sprintf("%s does not happen to nodes that %s; choose one of %v, or every:1s",
			name, map[bool]string{
				true: "are in a Redis Cluster", false: "are in no Redis Cluster",
			}[p.cluster], possible)
	case kind < 0:
		return fmt.Sprintf("no action is called %q; choose one of %v, or every:1s", name, possible)
	}
	f := Fault{action: possible[kind]}
	number, when, ok := strings.Cut(rest, "@")
	if !ok {
		return "no @time; " + faultForm
	}
	var err error
	if f.node, err = strconv.Atoi(number); err != nil || f.node < 1 || f.node > nodes {
		return fmt.Sprintf("no node is called %q; give 1 to %d", number, nodes)
	}
	start, length, lasts := strings.Cut(when, "+")
	if f.at, err = time.ParseDuration(start); err != nil || f.at < 0 || f.at >= duration {
		return fmt.Sprintf("%q is not a time within the run; give one such as 2s, below %v", start,
			duration)
	}
	switch {
	case lasts && !f.action.lasts:
		return fmt.Sprintf("%s has no duration; leave out +%s", f.action, length)
	case !lasts && f.action.lasts:
		return fmt.Sprintf("%s needs a duration; give one such as %s+3s", f.action, item)
	case lasts:
		if f.length, err = time.ParseDuration(length); err != nil || f.length <= 0 {
			return fmt.Sprintf("%q is not a duration; give one above 0 such as 3s", length)
		}
	}
	if p.list = append(p.list, f); len(p.list) > maxFaults {
		return fmt.Sprintf("too many; give at most %d", maxFaults)
	}
	return ""
}

// addRandom reads what follows every.
func (p *Plan) addRandom(text string, duration time.Duration) (remedy string) {
	interval, err := time.ParseDuration(text)
	switch {
	case p.interval != 0:
		return "every is there already; give it once"
	case err != nil || interval < shortestInterval:
		return fmt.Sprintf("%q is not an interval; give at least %v, such as every:1s", text,
			shortestInterval)
	case duration/interval > maxFaults:
		return fmt.Sprintf("more than %d faults in %v; give a longer interval", maxFaults, duration)
	}
	p.interval = interval
	return ""
}

// checkOverlaps refuses a fault of a node that still has another one: nobody could say what both
// together do.
func checkOverlaps(list []Fault) error {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.at, b.at))
	})
	for i := 1; i < len(sorted); i++ {
		before, f := sorted[i-1], sorted[i]
		remedy := ""
		switch {
		case before.node != f.node:
		case before.action == kill && f.action != restart:
			remedy = fmt.Sprintf("node %d is dead since %v; restart it before", f.node, before.at)
		case f.at < before.end():
			remedy = fmt.Sprintf("node %d is under %s; give a time from %v on", f.node, before,
				before.end())
		}
		if remedy != "" {
			return &Error{Item: f.String(), Remedy: remedy}
		}
	}
	return nil
}
