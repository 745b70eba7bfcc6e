package lockpipe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Errors for errors.Is. The comment of each says what you may assume about the lock. The text of
// every returned error begins with "lockpipe: ", once. ctx's error is wrapped too: errors.Is finds
// it.
var (
	// ErrHeld: another caller holds a key. Enough nodes refused to rule out a quorum, or another
	// caller of this Client has the key. It also comes if ctx ended before the first attempt, and a
	// node showed another holder. The call holds nothing. Trying again later may help.
	ErrHeld = errors.New(prefix.Text + "held by another")
	// ErrNoQuorum: too few nodes granted, for other reasons than ErrHeld. An acquiring call holds
	// nothing; what it may have left on nodes is being deleted. After Extend the lease lasts until
	// its Until. Trying again may help.
	ErrNoQuorum = errors.New(prefix.Text + "no quorum")
	// ErrLost: the lease was found gone before its time ran out, or its automatic extension was not
	// confirmed in time. Another may hold the keys.
	ErrLost = lease.ErrLost
	// ErrExpired: the lease's time ran out. Another may hold the keys.
	ErrExpired = lease.ErrExpired
	// ErrReleased: the lease was released by its holder.
	ErrReleased = lease.ErrReleased
	// ErrKept: Lease.Keep ended the lease. Its keys stay on the nodes until they expire there.
	ErrKept = lease.ErrKept
	// ErrClosed: the Client is closing or closed. Close releases what it held, and the error of
	// Close names what was not confirmed.
	ErrClosed = lease.ErrClosed
	// ErrOverloaded: too many calls are pending, so this one was refused at once. If a QuorumError
	// has it for a node, nothing was sent to that node.
	ErrOverloaded = batch.ErrOverloaded
	// ErrInvalid: an argument or a field of Config is not valid. The text names it, its value and
	// the remedy. Nothing was sent. Every call that takes a ctx returns it if ctx is nil: then
	// Release has released nothing, and Close has closed nothing.
	ErrInvalid = errors.New(prefix.Text + "invalid")
)

// HeldError names the keys that were found held, and the nodes that refused. It is ErrHeld.
type HeldError struct {
	// Keys are the keys that were found held: one of each node that refused, without the prefix.
	Keys []string
	// Nodes are the addresses of the nodes that refused. If ctx ended before the first attempt, it
	// is the node that has another's token for the key. Nodes is empty if other callers of the same
	// Client had the keys or were before this one all the time.
	Nodes []string
	// RetryAfter is how long the keys still last on the nodes unless they are extended or released.
	// 0: not known, as for all calls that do not wait or have WithMaxAttempts, and if another
	// caller of the same Client waits before this one.
	RetryAfter time.Duration
	// Owner is who holds the key that the call waited for: Config.Owner of the Client that has it,
	// which may be this one. It is empty if that is not known, as for all calls that do not wait or
	// have WithMaxAttempts: a node that refuses does not say who has the key. Peek asks for that.
	Owner string
	// Ahead is how many processes came before this one and wait for the key, or have it, as the
	// node that has their line said last. 0: none, or not known, as Owner.
	Ahead int
	own   bool // ctx comes from the lease that has the key
}

// Error names the keys, the owner and the nodes: at most three keys, of long ones the beginning,
// and at most five nodes.
func (e *HeldError) Error() string {
	const maxKeys, maxNodes = 3, 5
	text := fmt.Sprintf("%.64q", e.Keys[:min(len(e.Keys), maxKeys)])
	text = prefix.Text + text[1:len(text)-1]
	switch {
	case e.own:
		return text + " is held by this caller's own lease, from which ctx comes"
	case len(e.Nodes) == 0:
		return text + " is held by another caller of this Client"
	}
	nodes := strings.Join(e.Nodes[:min(len(e.Nodes), maxNodes)], ", ")
	if len(e.Nodes) > maxNodes {
		nodes += ", ..."
	}
	text += " held by another caller"
	if e.Owner != "" {
		text += " (" + e.Owner + ")"
	}
	return fmt.Sprintf("%s, seen on %s (%s)", text, countNodes(len(e.Nodes)), nodes)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// QuorumError counts the votes of an attempt that no quorum granted. It is ErrNoQuorum, and
// errors.Is finds the errors of the nodes too. In the error of Ready, Granted is how many nodes can
// vote, and in that of Peek, how many answered. In both, Unknown is how many other nodes there are.
type QuorumError struct {
	// Need is how many nodes had to grant.
	Need int
	// Granted, Refused and Unknown add up to the number of nodes.
	Granted, Refused, Unknown int
	// Nodes has one entry for each node whose vote is unknown, in configuration order.
	Nodes []*NodeError
	did   string // what those did that count as Granted; empty: they granted
}

// Error counts the votes. Then it names each node whose vote is unknown and why.
func (e *QuorumError) Error() string {
	by := map[string]int{"refused": e.Refused, "failed": e.Unknown - len(e.Nodes)}
	var each []string
	for _, n := range e.Nodes {
		by[n.reason()]++
		each = append(each, n.Error())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d of %s %s, %d needed", ErrNoQuorum, e.Granted,
		countNodes(e.Granted+e.Refused+e.Unknown), cmp.Or(e.did, "granted"), e.Need)
	separator := "; "
	for _, reason := range [...]string{
		"refused", "quarantined", "down", "timed out", "not waited for", "failed",
	} {
		if by[reason] > 0 {
			fmt.Fprint(&b, separator, by[reason], " ", reason)
			separator = ", "
		}
	}
	if len(each) > 0 {
		fmt.Fprint(&b, ": ", strings.Join(each, "; "))
	}
	return b.String()
}

// missingQuorum counts the nodes of a set: those without an error did what was wanted. It returns
// nil if they are a quorum, and otherwise a *QuorumError.
func missingQuorum(did string, nodes []holders.Node) error {
	o := multiplex.Outcome{Result: multiplex.NoQuorum, Need: quorum.Need(len(nodes)), Did: did}
	for _, n := range nodes {
		if n.Err != nil {
			o.NoVotes = append(o.NoVotes, n)
		}
	}
	o.Unknown = len(o.NoVotes)
	if o.Granted = len(nodes) - o.Unknown; o.Granted >= o.Need {
		return nil
	}
	return votesError(o)
}

// countNodes returns a number of nodes as text.
func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
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
	Node  string
	Err   error
	state link.State // of the node then
}

// reason is why the node did not grant, in a few classes.
func (e *NodeError) reason() string {
	switch {
	case errors.As(e.Err, new(*holders.TimeoutError)):
		return "timed out"
	case errors.As(e.Err, new(multiplex.NotAwaited)):
		return "not waited for"
	case errors.As(e.Err, new(*guard.Quarantine)), e.state == link.Quarantined:
		return "quarantined"
	case e.state == link.Down, e.Err == errConnecting, errors.Is(e.Err, link.ErrNotConnected):
		return "down"
	}
	return "failed"
}

// Error is the node's address and the error.
func (e *NodeError) Error() string { return e.Node + ": " + prefix.Without(e.Err).Error() }

// Unwrap returns the error without the address.
func (e *NodeError) Unwrap() error { return e.Err }

// votesError returns the error of an attempt's votes, nil if a quorum granted. It is a *HeldError
// or a *QuorumError. If ctx ended before the decision, errors.Is finds ctx's error too. No other
// function makes these of votes.
func votesError(o multiplex.Outcome) error {
	var err error
	switch o.Result {
	case multiplex.Won:
		return nil
	case multiplex.Held:
		err = &HeldError{Keys: o.Keys, Nodes: o.Nodes}
	default:
		e := &QuorumError{
			Need: o.Need, Granted: o.Granted, Refused: o.Refused, Unknown: o.Unknown, did: o.Did,
		}
		for _, n := range o.NoVotes {
			e.Nodes = append(e.Nodes, &NodeError{n.Name, n.Err, n.State})
		}
		err = e
	}
	if o.Ended != nil {
		err = fmt.Errorf("%w: %w", err, o.Ended)
	}
	return err
}

// failureError returns the error of a call that got no lease.
func failureError(f *locker.Failure) error {
	var err error
	switch {
	case f.Votes.Result == 0 && (f.End == ErrClosed || f.End == ErrOverloaded):
		return f.End
	case f.End == ErrExpired:
		return prefix.Errorf("too few nodes keep the keys: %w", f.End)
	case f.Votes.Result == 0 && f.WaitedFor == "": // no attempt was made
		return prefix.Errorf("ctx was already cancelled: %w", f.End)
	case f.Votes.Result == 0:
		return prefix.Errorf("%w", f.End)
	case f.Votes.Result == multiplex.Won:
		err = prefix.Errorf("%w: granted when %v of %v had passed", ErrNoQuorum, f.Passed, f.TTL)
	default:
		err = votesError(f.Votes)
	}
	if f.IsHeld() && (f.WaitedFor != "" || f.Own) {
		if held := (*HeldError)(nil); errors.As(err, &held) { // only here: it takes memory
			*held = HeldError{held.Keys, held.Nodes, f.RetryAfter, f.Owner, f.Ahead, f.Own}
		}
	}
	if f.Closing {
		err = prefix.Errorf("%w: %w", ErrClosed, err)
	}
	if f.End != nil {
		err = prefix.Errorf("%w: %w", err, f.End)
	}
	if f.WaitedFor != "" {
		err = prefix.Errorf("waited %v for %s: %w", f.Waited.Round(time.Millisecond), f.WaitedFor, err)
	}
	return err
}

// errNilContext is ErrInvalid for a ctx that is nil, in every call that takes one.
var errNilContext = invalid("ctx is nil: pass context.Background()")
