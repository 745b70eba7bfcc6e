package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// errorPrefix begins the text of each end: the library returns it as it is.
const errorPrefix = "lockpipe: "

// The ends of a lease. Each lease ends with exactly one of them, and it is the cause of its
// context.
var (
	// ErrReleased: the holder released it, and nothing is held any more.
	ErrReleased = errors.New(errorPrefix + "lease was released")
	// ErrKept: the holder gave it up, and its keys stay on the nodes until they expire there.
	ErrKept = errors.New(errorPrefix + "lease has ended, and its keys are kept")
	// ErrExpired: its time ran out. Another may hold the keys now.
	ErrExpired = errors.New(errorPrefix + "lease expired")
	// ErrLost: an extension found it lost before its time ran out, or its automatic extension
	// failed until then. Another may hold the keys now.
	ErrLost = errors.New(errorPrefix + "lease was lost")
	// ErrClosed: the client was closed, which released it.
	ErrClosed = errors.New(errorPrefix + "client is closed")
)

// EndError is the end of a lease that expired or was lost: End is ErrExpired or ErrLost, or wraps
// one of them. The text of Owner names the lease.
type EndError struct {
	End   error
	Owner any
	At    time.Time
}

// Error is made when it is asked for: most leases that expire are in no log.
func (e *EndError) Error() string {
	return fmt.Sprintf(errorPrefix+"%v, at %s: %s", e.Owner, e.At.Format(time.RFC3339),
		strings.TrimPrefix(e.End.Error(), errorPrefix))
}

// Unwrap returns the end without the lease.
func (e *EndError) Unwrap() error { return e.End }

// expiryError returns how a term ends whose time has run out. mu is held.
func (t *Term) expiryError() error {
	why := "" // it is not known: the process was stopped, or the machine suspended
	switch {
	case t.ttl == 0:
		return ErrExpired
	case t.until == t.maxHoldEnd:
		return fmt.Errorf("%w: it was held for maxHold", ErrExpired)
	case t.failed(): // as text only: errors.Is must not find the failed try as the end
		why = ": the last try: " + strings.TrimPrefix(t.cold.failure.Error(), errorPrefix)
	case !t.manager.cfg.QuorumReachable(): // so there was no try
		why = ": too few nodes can vote"
	}
	return fmt.Errorf("%w: it was not extended in time%s", ErrLost, why)
}
