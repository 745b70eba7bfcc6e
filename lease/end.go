package lease

import (
	"errors"
	"fmt"
	"strings"
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

// errMaxHold is the end of a lease that was extended for as long as its holder wanted.
var errMaxHold = fmt.Errorf("%w: it was held for maxHold", ErrExpired)

// errUnextended is the end of a lease whose extension came too late, although none failed: for
// instance, the process was stopped or the machine suspended.
var errUnextended = fmt.Errorf("%w: it was not extended in time", ErrLost)

// expiryError returns how a term ends whose time has run out. mu is held.
func (t *Term) expiryError() error {
	switch {
	case t.ttl == 0:
		return ErrExpired
	case t.until == t.maxHoldEnd:
		return errMaxHold
	case t.failed():
		// As text only: errors.Is must not find the failed try as the end.
		failure := strings.TrimPrefix(t.cold.failure.Error(), errorPrefix)
		return fmt.Errorf("%w: the last try: %s", errUnextended, failure)
	}
	return errUnextended
}

// involuntary reports whether the holder may not know of this end, because it did not cause it.
func involuntary(end error) bool { return errors.Is(end, ErrLost) || errors.Is(end, ErrExpired) }
