package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// action is what a fault does to its node.
type action string

const (
	freeze      action = "freeze"      // SIGSTOP, for a time
	kill        action = "kill"        // SIGKILL, until a restart or the end
	restart     action = "restart"     // a new and empty server
	flush       action = "flush"       // FLUSHALL
	scriptFlush action = "scriptflush" // SCRIPT FLUSH
	reset       action = "reset"       // all clients' connections are cut
	readOnly    action = "readonly"    // the replica of a master that is not there, for a time
	oom         action = "oom"         // no memory for writes, for a time
	busy        action = "busy"        // a script that never ends, for a time
	demote      action = "demote"      // the replica of an older copy of itself, for a time
	failover    action = "failover"    // its replica is the master, for a time
)

// actions are all of them, in the order in which they are told.
var actions = []action{
	freeze, kill, restart, flush, scriptFlush, reset, readOnly, oom, busy, demote, failover,
}

const (
	// every starts the item that asks for random faults.
	every = "every"
	// shortestInterval and maxFaults bound what is planned, and what a report lists.
	shortestInterval = 100 * time.Millisecond
	maxFaults        = 10_000
	// faultForm is in the remedies of Config.Faults.
	faultForm = "give action:node@time or action:node@time+duration, such as freeze:1@2s+3s"
)

// lasts tells whether the fault has a duration of its own.
func (a action) lasts() bool {
	switch a {
	case freeze, readOnly, oom, busy, demote, failover:
		return true
	}
	return false
}

// quarantines reports whether the node may have forgotten keys, so that it does not vote for the
// longest TTL after the fault. A replica may have, whatever it shows when it is a master again.
func (a action) quarantines() bool {
	switch a {
	case kill, restart, flush, readOnly, demote, failover:
		return true
	}
	return false
}

// fault is one thing that happens to one node.
type fault struct {
	action action
	node   int           // from 1
	at     time.Duration // since the first call
	length time.Duration // 0 where the action does not last
}

// String is the fault as Config.Faults has it.
func (f fault) String() string {
	text := fmt.Sprintf("%s:%d@%v", f.action, f.node, f.at)
	if f.length > 0 {
		text += "+" + f.length.String()
	}
	return text
}

// end is when the node may be struck again. A killed one may only be restarted, so it is the
// beginning there.
func (f fault) end() time.Duration { return f.at + f.length }

// faultPlan is Config.Faults, understood.
type faultPlan struct {
	list     []fault       // as given
	interval time.Duration // between two random faults; 0: none
}

// parseFaults reads Config.Faults for a run of so many nodes that lasts so long. Its error is a
// *ConfigError.
func parseFaults(text string, nodes int, duration time.Duration) (faultPlan, error) {
	var plan faultPlan
	if text == "" {
		return plan, nil
	}
	for i, item := range strings.Split(text, ",") {
		if remedy := plan.add(strings.TrimSpace(item), nodes, duration); remedy != "" {
			return faultPlan{}, &ConfigError{
				Field: "Faults", Value: item,
				Remedy: fmt.Sprintf("fault %d: %s", i+1, remedy),
			}
		}
	}
	if err := consistent(plan.list); err != nil {
		return faultPlan{}, err
	}
	return plan, nil
}

// add reads one item. What it returns is "" or what should be there instead.
func (p *faultPlan) add(item string, nodes int, duration time.Duration) (remedy string) {
	name, rest, ok := strings.Cut(item, ":")
	if !ok {
		return faultForm + ", or every:1s"
	}
	if name == every {
		return p.repeat(rest, duration)
	}
	if !slices.Contains(actions, action(name)) {
		return fmt.Sprintf("no action is called %q; choose one of %v, or every:1s", name, actions)
	}
	f := fault{action: action(name)}
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
	case lasts && !f.action.lasts():
		return fmt.Sprintf("%s has no duration; leave out +%s", f.action, length)
	case !lasts && f.action.lasts():
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

// repeat reads what follows every.
func (p *faultPlan) repeat(text string, duration time.Duration) (remedy string) {
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

// consistent refuses a fault of a node that another one has not left yet: what both would come to
// is anybody's guess.
func consistent(list []fault) error {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b fault) int {
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
			return &ConfigError{Field: "Faults", Value: f.String(), Remedy: remedy}
		}
	}
	return nil
}
