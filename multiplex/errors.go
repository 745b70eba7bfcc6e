package multiplex

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// errorPrefix begins the text of each error that the library returns as it is. The text of an error
// within another one has none.
const errorPrefix = "lockpipe: "

// ErrHeld is what errors.Is finds in a HeldError: another token holds a key on so many nodes that a
// quorum was impossible. The attempt that failed holds nothing.
var ErrHeld = errors.New(errorPrefix + "held by another")

// ErrNoQuorum is what errors.Is finds in a QuorumError: too few nodes granted, for another reason
// than that another caller holds the keys. An acquire that failed holds nothing that may be relied
// on. What it may have left on nodes is being deleted.
var ErrNoQuorum = errors.New(errorPrefix + "no quorum")

// ErrClosed reports an attempt on a Mux that was closed. Nothing was sent.
var ErrClosed = errors.New("closed")

// HeldError names the nodes that refused an attempt, and the keys. For errors.Is it is ErrHeld.
type HeldError struct {
	// Keys are the keys that were found held, one for each node that refused, without the prefix.
	// Each key is listed once.
	Keys []string
	// Nodes are the addresses of the nodes that refused. It is empty if no node was asked, because
	// other callers of the same client had the keys or were before this one all the time.
	Nodes []string
	// RetryAfter is how long the holder's lease still lasts unless it is extended or released. 0 is
	// not known. That is so for all calls that do not wait, and if another caller of the same
	// client waits before this one.
	RetryAfter time.Duration
}

// Error names the keys and the nodes: at most three keys, of long ones the beginning, and at most
// five nodes.
func (e *HeldError) Error() string {
	const mostKeys = 3
	text := fmt.Sprintf("%.64q", e.Keys[:min(len(e.Keys), mostKeys)])
	text = text[1 : len(text)-1]
	if len(e.Nodes) == 0 {
		return errorPrefix + text + " held by another caller of this client"
	}
	return fmt.Sprintf("%s%s held by another on %s (%s)",
		errorPrefix, text, countNodes(len(e.Nodes)), listed(e.Nodes))
}

// listed lists at most five nodes.
func listed(nodes []string) string {
	const most = 5
	text := strings.Join(nodes[:min(len(nodes), most)], ", ")
	if len(nodes) > most {
		text += ", ..."
	}
	return text
}

// countNodes returns a number of nodes as text.
func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// QuorumError says how the nodes voted if no quorum granted. For errors.Is it is ErrNoQuorum.
type QuorumError struct {
	// Need is how many nodes had to grant.
	Need int
	// Granted, Refused and Unknown add up to the number of nodes.
	Granted, Refused, Unknown int
	// Nodes has one entry for each node whose vote is unknown, in configuration order.
	Nodes []*NodeError
}

// Error counts the votes. Then it names each node whose vote is unknown and why.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d of %s granted, %d needed",
		ErrNoQuorum, e.Granted, countNodes(e.Granted+e.Refused+e.Unknown), e.Need)
	separator := "; "
	for _, part := range e.missing() {
		if part.nodes > 0 {
			fmt.Fprintf(&b, "%s%d %s", separator, part.nodes, part.what)
			separator = ", "
		}
	}
	separator = ": "
	for _, n := range e.Nodes {
		b.WriteString(separator)
		b.WriteString(n.Error())
		separator = "; "
	}
	return b.String()
}

// share is how many nodes did not grant, for one reason.
type share struct {
	nodes int
	what  string
}

// missing counts the nodes that did not grant, by the reason.
func (e *QuorumError) missing() []share {
	var quarantined, down, timedOut, open int
	for _, n := range e.Nodes {
		var q *restartguard.Quarantine
		var late *timeoutError
		switch {
		case errors.As(n.Err, &q):
			quarantined++
		case n.down:
			down++
		case errors.As(n.Err, &late):
			timedOut++
		case n.Err == errNotNeeded, n.Err == errCallerGone, n.Err == errNotAsked:
			open++
		}
	}
	return []share{
		{e.Refused, "refused"},
		{quarantined, "quarantined"},
		{down, "down"},
		{timedOut, "timed out"},
		{open, "not waited for"},
		{e.Unknown - quarantined - down - timedOut - open, "failed"},
	}
}

// timeoutError is why a node has no vote that has not answered in time.
type timeoutError struct{ timeout time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %v", e.timeout) }

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
	down bool // the node was down
}

// Error is the node's address and the error.
func (e *NodeError) Error() string {
	return e.Node + ": " + strings.TrimPrefix(e.Err.Error(), errorPrefix)
}

// Unwrap returns the error without the address.
func (e *NodeError) Unwrap() error { return e.Err }
