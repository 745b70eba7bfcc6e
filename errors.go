package lockpipe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// errorPrefix begins the text of each error that the library returns. Packages multiplex, lease and
// batch put it before the text of errors that are returned as they are.
const errorPrefix = "lockpipe: "

// Errors for errors.Is. What each allows to assume about the lock stands with it. The text of every
// returned error begins with "lockpipe: ", once. ctx's error is wrapped too: errors.Is
// finds it.
var (
	// ErrHeld: another token holds a key on so many nodes that a quorum was impossible. The attempt
	// holds nothing. Trying again later may help.
	ErrHeld = multiplex.ErrHeld
	// ErrNoQuorum: too few nodes granted, for other reasons than ErrHeld. An acquiring call holds
	// nothing; what it may have left on nodes is being deleted. After Extend the lease lasts until
	// its Until. Trying again may help.
	ErrNoQuorum = multiplex.ErrNoQuorum
	// ErrLost: the lease was found gone before its time ran out, or its automatic extension was not
	// confirmed in time. Another may hold the keys.
	ErrLost = lease.ErrLost
	// ErrExpired: the lease's time ran out. Another may hold the keys.
	ErrExpired = lease.ErrExpired
	// ErrReleased: the lease was released by its holder.
	ErrReleased = lease.ErrReleased
	// ErrClosed: the client is closed, and has released what it held.
	ErrClosed = lease.ErrClosed
	// ErrOverloaded: so many calls are pending that this one was refused at once. Nothing was sent
	// to the nodes that report it.
	ErrOverloaded = batch.ErrOverloaded
	// ErrInvalid: an argument or a Config field makes no sense; the text names it, its value and
	// the remedy. Nothing was sent. Every call that takes a ctx returns it if ctx is nil: then
	// Release has released nothing, and Close has closed nothing.
	ErrInvalid = errors.New(errorPrefix + "invalid")
)

// Errors for errors.As.
type (
	// HeldError tells which Keys were found held, each once and without the prefix, by which Nodes,
	// by their addresses, and in RetryAfter for how long yet, where a waiting call knows; else 0.
	// It is ErrHeld.
	HeldError = multiplex.HeldError
	// QuorumError tells how many nodes were needed (Need) and how they voted (Granted, Refused,
	// Unknown), and in Nodes what was wrong with each whose vote is unknown; errors.Is finds these
	// errors too. It is ErrNoQuorum.
	QuorumError = multiplex.QuorumError
	// NodeError is what was wrong (Err) with one node (Node, its address without user and
	// password).
	NodeError = multiplex.NodeError
)

// errNilContext is ErrInvalid for a ctx that is nil, in every call that takes one.
var errNilContext = invalid("ctx is nil: pass context.Background()")

// errorf is fmt.Errorf with the prefix before the text. The errors among args lose theirs.
func errorf(format string, args ...any) error {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = inner{err}
		}
	}
	return fmt.Errorf(errorPrefix+format, args...)
}

// inner is an error in the text of another one: its text has no prefix.
type inner struct{ err error }

func (e inner) Error() string { return strings.TrimPrefix(e.err.Error(), errorPrefix) }

func (e inner) Unwrap() error { return e.err }

// joined are errors that errors.Join would join, on a line each, with the prefix before the first.
type joined struct{ errs []error }

func (e *joined) Error() string {
	lines := make([]string, len(e.errs))
	for i, err := range e.errs {
		lines[i] = inner{err}.Error()
	}
	return errorPrefix + strings.Join(lines, "\n")
}

func (e *joined) Unwrap() []error { return e.errs }

// retryable reports whether a further attempt may succeed where err was the last one's.
func retryable(err error) bool {
	return (errors.Is(err, ErrHeld) || errors.Is(err, ErrNoQuorum)) &&
		!errors.Is(err, ErrOverloaded)
}
