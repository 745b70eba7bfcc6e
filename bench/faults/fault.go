// Package faults makes faults happen to the nodes of a run: it reads a list of them, draws random
// ones, and injects each at its time. What it broke, it repairs at the end.
package faults

import (
	"fmt"
	"time"
)

// Action is what a fault does to its node.
type Action string

const (
	freeze      Action = "freeze"      // SIGSTOP, for a time
	kill        Action = "kill"        // SIGKILL, until a restart or the end
	restart     Action = "restart"     // a new and empty server
	wipe        Action = "flush"       // FLUSHALL
	scriptFlush Action = "scriptflush" // SCRIPT FLUSH
	reset       Action = "reset"       // all clients' connections are cut
	readOnly    Action = "readonly"    // the replica of a master that is not there, for a time
	oom         Action = "oom"         // no memory for writes, for a time
	busy        Action = "busy"        // a script that never ends, for a time
	demote      Action = "demote"      // the replica of an older copy of itself, for a time
	failover    Action = "failover"    // its replica is the master, for a time
)

// actions are all of them, in the order in which messages name them.
var actions = []Action{
	freeze, kill, restart, wipe, scriptFlush, reset, readOnly, oom, busy, demote, failover,
}

// lasts reports whether the fault has a duration.
func (a Action) lasts() bool {
	switch a {
	case freeze, readOnly, oom, busy, demote, failover:
		return true
	}
	return false
}

// quarantines reports whether the node may have forgotten keys, so that it does not vote for the
// longest TTL after the fault. A replica may have, whatever it shows when it is a master again.
func (a Action) quarantines() bool {
	switch a {
	case kill, restart, wipe, readOnly, demote, failover:
		return true
	}
	return false
}

// Fault is one thing that happens to one node.
type Fault struct {
	action Action
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
