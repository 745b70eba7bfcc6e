// Package faults makes faults happen to the nodes of a run: it reads a list of them, draws random
// ones, and injects each at its time. What it broke, it repairs at the end.
package faults

import (
	"fmt"
	"time"
)

// action is what a fault does to its node.
type action struct {
	name string
	// lasts: the fault has a duration.
	lasts bool
	// quarantines: the node may have forgotten keys, so that it does not vote for the longest TTL
	// after the fault. A replica may have, whatever it shows when it is a master again.
	quarantines bool
	where       place
}

// place says to which nodes an action happens.
type place int

const (
	anywhere place = iota
	alone          // to masters of their own
	together       // to the masters of a Redis Cluster
)

func (a action) String() string { return a.name }

var (
	freeze      = action{"freeze", true, false, anywhere}       // SIGSTOP
	kill        = action{"kill", false, true, anywhere}         // until a restart or the end
	restart     = action{"restart", false, true, anywhere}      // a new and empty server
	wipe        = action{"flush", false, true, anywhere}        // FLUSHALL
	scriptFlush = action{"scriptflush", false, false, anywhere} // SCRIPT FLUSH
	reset       = action{"reset", false, false, anywhere}       // connections of clients are cut
	readOnly    = action{"readonly", true, true, alone}         // its master is not there
	oom         = action{"oom", true, false, anywhere}          // no memory for writes
	busy        = action{"busy", true, false, anywhere}         // a script that never ends
	demote      = action{"demote", true, true, alone}           // an older copy is its master
	failover    = action{"failover", true, true, anywhere}      // its replica is the master
	takeover    = action{"takeover", false, true, together}     // its replica asks nobody
	reshard     = action{"reshard", true, true, together}       // the slot moves to the next node
	deposed     = action{"deposed", true, true, together}       // and the server does not know it
)

// actions are all of them, in the order in which messages name them. What a seed draws depends on
// the order.
var actions = []action{
	freeze, kill, restart, wipe, scriptFlush, reset, readOnly, oom, busy, demote, failover,
	takeover, reshard, deposed,
}

// happensIn reports whether the action happens to masters of a Redis Cluster, or else to others.
func (a action) happensIn(cluster bool) bool {
	return a.where == anywhere || (a.where == together) == cluster
}

// actionsIn returns those that happen to masters of a Redis Cluster, or else to others.
func actionsIn(cluster bool) (all []action) {
	for _, a := range actions {
		if a.happensIn(cluster) {
			all = append(all, a)
		}
	}
	return all
}

// Fault is one thing that happens to one node.
type Fault struct {
	action action
	node   int           // from 1
	at     time.Duration // since the first call
	length time.Duration // 0 if the action does not last
}

// String returns the fault in the form that Parse reads.
func (f Fault) String() string {
	text := fmt.Sprintf("%s:%d@%v", f.action, f.node, f.at)
	if f.length > 0 {
		text += "+" + f.length.String()
	}
	return text
}

// end returns when the node may have its next fault. For a kill that is the beginning: the next
// fault can only be a restart.
func (f Fault) end() time.Duration { return f.at + f.length }

// Result is one fault that happened.
type Result struct {
	// Fault is what was asked for, or drawn.
	Fault string `json:"fault"`
	// Action is what was done, and Node the number of its node, from 1.
	Action string `json:"action"`
	Node   int    `json:"node"`
	// FromS and UntilS are when it began and when it was over, in seconds since the first call.
	FromS  float64 `json:"from_s"`
	UntilS float64 `json:"until_s"`
	// Error says what could not be done to the node.
	Error string `json:"error,omitempty"`
}
