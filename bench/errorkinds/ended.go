package errorkinds

import (
	"errors"

	"github.com/lockpipe/lockpipe"
)

// SaysEnded reports whether an error says that a lease had ended before its release.
func SaysEnded(err error) bool {
	return errors.Is(err, lockpipe.ErrExpired) || errors.Is(err, lockpipe.ErrLost)
}

// OtherThanEnded returns the first of the joined errors that says something else than that a lease
// had ended. ReleaseAll does not report to programs which lease an error is about, so the error
// counts for all leases that had not ended.
func OtherThanEnded(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, one := range joined.Unwrap() {
		if !SaysEnded(one) {
			return one
		}
	}
	return nil
}
