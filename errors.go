package lockpipe

import (
	"errors"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Errors for errors.Is. What each allows to assume about the lock stands with it.
var (
	// ErrHeld: another token holds a key on so many nodes that a quorum was impossible. The attempt holds nothing. Trying
	// again later may help.
	ErrHeld = multiplex.ErrHeld
	// ErrNoQuorum: too few nodes granted, for other reasons than ErrHeld. An acquiring call holds nothing; what it may have left on
	// nodes is being deleted. After Extend the lease lasts until its Until. Trying again may help.
	ErrNoQuorum = multiplex.ErrNoQuorum
	// ErrLost: the lease was found gone before its time ran out, or its automatic extension was not confirmed in time. Another may hold
	// the keys.
	ErrLost = lease.ErrLost
	// ErrExpired: the lease's time ran out. Another may hold the keys.
	ErrExpired = lease.ErrExpired
	// ErrReleased: the lease was released by its holder.
	ErrReleased = lease.ErrReleased
	// ErrClosed: the client is closed, and has released what it held.
	ErrClosed = lease.ErrClosed
	// ErrOverloaded: so many calls are pending that this one was refused at once. Nothing was sent to the nodes that
	// report it.
	ErrOverloaded = batch.ErrOverloaded
	// ErrInvalid: an argument or a Config field makes no sense; the text names it, its value and
	// the remedy. Nothing was sent. Every call that takes a ctx returns it if ctx is nil: then
	// Release has released nothing, and Close has closed nothing.
	ErrInvalid = errors.New("invalid")
)

// Errors for errors.As.
type (
	// HeldError tells which Keys were found held, each once and without the prefix, by which Nodes, by their addresses, and in RetryAfter for how
	// long yet, where a waiting call knows; else 0. It is ErrHeld.
	HeldError = multiplex.HeldError
	// QuorumError tells how many nodes were needed (Need) and how they voted (Granted, Refused, Unknown), and in Nodes what was wrong with each
	// whose vote is unknown; errors.Is finds these errors too. It is ErrNoQuorum.
	QuorumError = multiplex.QuorumError
	// NodeError is what was wrong (Err) with one node (Node, its address without user and password).
	NodeError = multiplex.NodeError
)

// errNilContext is ErrInvalid for a ctx that is nil, in every call that takes one.
var errNilContext = invalid("ctx is nil: pass context.Background()")

// retryable reports whether a further attempt may succeed where err was the last one's.
func retryable(err error) bool {
	return (errors.Is(err, ErrHeld) || errors.Is(err, ErrNoQuorum)) && !errors.Is(err, ErrOverloaded)
}
