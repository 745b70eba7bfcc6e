package multiplex

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrHeld is what errors.Is finds in a HeldError: another token holds a key on so many nodes that a quorum was
// impossible. Nothing is held by the attempt that failed.
var ErrHeld = errors.New("held by another")

// ErrNoQuorum is what errors.Is finds in a QuorumError: too few nodes answered, for other reasons than that somebody
// holds the keys. Nothing may be relied on as held by an acquire that failed, and what it may have left is being deleted.
var ErrNoQuorum = errors.New("no quorum")

// ErrClosed reports an attempt on a Mux that was closed. Nothing was sent.
var ErrClosed = errors.New("closed")

// HeldError tells who refused an attempt. It is ErrHeld for errors.Is.
type HeldError struct {
	// Keys are the keys that were found held, one for each node that refused, each told once, without the prefix.
	Keys []string
	// Nodes are the addresses of the nodes that refused; empty where none was asked, because other callers of the same client had the keys
	// or were before this one all the time.
	Nodes []string
	// RetryAfter is how long the holder's lease still lasts unless it is extended or released. 0: not known, as for all calls that do not
	// wait, and where another caller of the same client waits before this one.
	RetryAfter time.Duration
}

// Error names the keys, at most three of them, and of long ones the beginning.
func (e *HeldError) Error() string {
	shown := e.Keys
	if len(shown) > 3 {
		shown = shown[:3]
	}
	text := fmt.Sprintf("%.64q", shown)
	text = text[1 : len(text)-1]
	if len(e.Nodes) == 0 {
		return text + " held by another caller of this client"
	}
	return fmt.Sprintf("%s held by another on %d nodes", text, len(e.Nodes))
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// QuorumError tells how the nodes voted where no quorum granted. It is ErrNoQuorum for errors.Is.
type QuorumError struct {
	// Need is how many nodes had to grant.
	Need int
	// Granted, Refused and Unknown add up to the number of nodes.
	Granted, Refused, Unknown int
	// Nodes has one entry for each node whose vote is unknown, in configuration order.
	Nodes []*NodeError
}

// Error names each node whose vote is unknown and why.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no quorum: %d needed, %d granted, %d refused, %d unknown", e.Need, e.Granted, e.Refused, e.Unknown)
	separator := ": "
	for _, n := range e.Nodes {
		b.WriteString(separator)
		b.WriteString(n.Error())
		separator = "; "
	}
	return b.String()
}

// Is reports whether target is ErrNoQuorum.
func (e *QuorumError) Is(target error) bool { return target == ErrNoQuorum }

// Unwrap returns the nodes' errors.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, len(e.Nodes))
	for i, n := range e.Nodes {
		errs[i] = n
	}
	return errs
}

// NodeError is what went wrong on one node.
type NodeError struct {
	// Node is its address, without user or password.
	Node string
	Err  error
}

// Error is the node's address and the error.
func (e *NodeError) Error() string { return e.Node + ": " + e.Err.Error() }

// Unwrap returns the error without the address.
func (e *NodeError) Unwrap() error { return e.Err }
