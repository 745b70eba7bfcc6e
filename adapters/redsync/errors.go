package redsync

import (
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe"
)

// Errors for errors.Is. They come together with lockpipe's errors: lockpipe.ErrHeld, ErrNoQuorum,
// ErrLost and so on.
var (
	// ErrFailed means that the mutex was not locked. Unlike redsync's it comes with every failure.
	ErrFailed = errors.New("redsync: failed to acquire lock")
	// ErrExtendFailed means that the lock was not extended. Unlike redsync's it comes with every
	// failure.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")
	// ErrLockAlreadyExpired means that the mutex was not locked any more when it was unlocked.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken, for errors.As with a *ErrTaken, means that another holder has the mutex, or may have
// it.
type ErrTaken struct {
	// Nodes are the nodes that said so, by their index in lockpipe's Config.Nodes. It is empty if
	// no node was asked.
	Nodes []int
}

func (e ErrTaken) Error() string {
	return fmt.Sprintf("lock already taken, locked nodes: %v", e.Nodes)
}

// ErrNodeTaken, for errors.As with a *ErrNodeTaken, means that another holder has the mutex on one
// node. It comes with ErrTaken.
type ErrNodeTaken struct{ Node int }

func (e ErrNodeTaken) Error() string { return fmt.Sprintf("node #%d: lock already taken", e.Node) }

// RedisError, for errors.As with a *RedisError, means that a node has answered with an error or not
// at all.
type RedisError struct {
	Node int
	Err  error
}

func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %v", e.Node, e.Err) }

// Unwrap returns Err.
func (e RedisError) Unwrap() error { return e.Err }

// wrappedError is an error of lockpipe that is also one or more errors of redsync.
type wrappedError struct {
	error
	kinds []error
}

func (f *wrappedError) Unwrap() []error { return append([]error{f.error}, f.kinds...) }

// wrap adds the errors of redsync that fit to err, an error of lockpipe. kind may be nil.
func (r *Redsync) wrap(kind, err error) error {
	f := &wrappedError{error: err}
	if kind != nil {
		f.error = fmt.Errorf("%w: %w", kind, err)
	}
	var held *lockpipe.HeldError
	var quorum *lockpipe.QuorumError
	switch {
	case errors.As(err, &held):
		taken := &ErrTaken{}
		f.kinds = append(f.kinds, taken)
		for _, addr := range held.Nodes {
			taken.Nodes = append(taken.Nodes, r.nodes[addr])
			f.kinds = append(f.kinds, &ErrNodeTaken{r.nodes[addr]})
		}
	case leaseEnded(err):
		f.kinds = append(f.kinds, &ErrTaken{})
	case errors.As(err, &quorum):
		for _, node := range quorum.Nodes {
			f.kinds = append(f.kinds, &RedisError{r.nodes[node.Node], node.Err})
		}
	}
	return f
}

// leaseEnded reports whether err says that the lease had ended before.
func leaseEnded(err error) bool {
	return errors.Is(err, lockpipe.ErrExpired) || errors.Is(err, lockpipe.ErrLost) ||
		errors.Is(err, lockpipe.ErrReleased)
}
