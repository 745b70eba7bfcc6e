package node

import (
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe/script"
)

// FenceTooLowError is the vote of a node whose fence keys have a number that is not below the
// fence. It says nothing about a holder, and the acquire left nothing on the node.
type FenceTooLowError struct {
	Seen int64 // the highest number there
}

// Error returns the number that was in the way.
func (e *FenceTooLowError) Error() string {
	if e.Seen >= script.MaxFence {
		return fmt.Sprintf("a fence of %d was granted before, and there is none above it: the "+
			"key can't be taken with fencing until its fence key is deleted or expires", e.Seen)
	}
	return fmt.Sprintf("a fence of %d was granted before, which is not below that of this attempt",
		e.Seen)
}

// setFenceTooLow takes the reply about a set, or a part of one, that found the number seen in its
// fence keys. If another part has replied, its reply counts.
func (r *Answer) setFenceTooLow(seen int64, nothing bool) {
	var before *FenceTooLowError
	switch {
	case r.Vote == Granted:
		*r = Answer{LeftNothing: nothing, Replied: true, Err: &FenceTooLowError{seen}}
	case errors.As(r.Err, &before):
		before.Seen = max(before.Seen, seen)
	}
}
