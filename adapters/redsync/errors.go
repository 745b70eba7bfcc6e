package redsync

import (
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe"
)

// Errors for errors.Is. What lockpipe said is found as well: lockpipe.ErrHeld, ErrNoQuorum, ErrLost
// and so on.
var (
	// ErrFailed: the mutex was not locked. Unlike redsync's it comes with every failure.
	ErrFailed = errors.New("redsync: failed to acquire lock")
	// ErrExtendFailed: the lock was not extended. Unlike redsync's it comes with every failure.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")
	// ErrLockAlreadyExpired: what was to be unlocked was not locked any more.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken, for errors.As with a *ErrTaken: another has the mutex, or may have it.
type ErrTaken struct {
	// Nodes are the masters that said so, by their place in lockpipe's Config.Nodes; empty where
	// none was asked.
	Nodes []int
}

func (e ErrTaken) Error() string {
	return fmt.Sprintf("lock already taken, locked nodes: %v",
		e.Nodes)
}

// ErrNodeTaken, for errors.As with a *ErrNodeTaken: another has the mutex on a master. It comes
// with ErrTaken.
type ErrNodeTaken struct{ Node int }

func (e ErrNodeTaken) Error() string { return fmt.Sprintf("node #%d: lock already taken", e.Node) }

// RedisError, for errors.As with a *RedisError: a master has not answered, or with an error.
type RedisError struct {
	Node int
	Err  error
}

func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %v", e.Node, e.Err) }

// Unwrap returns Err.
func (e RedisError) Unwrap() error { return e.Err }

// failure is an error of lockpipe that is errors of redsync too.
type failure struct {
	error
	kinds []error
}

func (f *failure) Unwrap() []error { return append([]error{f.error}, f.kinds...) }

// failed is err, as one of lockpipe's, with what redsync calls it; kind may be nil.
func (r *Redsync) failed(kind, err error) error {
	f := &failure{error: err}
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
	case over(err):
		f.kinds = append(f.kinds, &ErrTaken{})
	case errors.As(err, &quorum):
		for _, node := range quorum.Nodes {
			f.kinds = append(f.kinds, &RedisError{r.nodes[node.Node], node.Err})
		}
	}
	return f
}

// over reports whether err says that a lease had ended before.
func over(err error) bool {
	return errors.Is(err, lockpipe.ErrExpired) || errors.Is(err, lockpipe.ErrLost) ||
		errors.Is(err, lockpipe.ErrReleased)
}
