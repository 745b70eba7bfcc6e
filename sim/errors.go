package sim

import (
	"context"
	"errors"
	"strings"

	"github.com/lockpipe/lockpipe"
)

// sentinel is one documented error and its name in histories.
type sentinel struct {
	name string
	err  error
}

// The errors that a call may return. ErrInvalid and ErrOverloaded are not among them: a run gives
// no reason for either.
var (
	endedEarly = []sentinel{{"deadline", context.DeadlineExceeded}, {"canceled", context.Canceled}}
	acquiring  = append(endedEarly,
		sentinel{"held", lockpipe.ErrHeld},
		sentinel{"no quorum", lockpipe.ErrNoQuorum},
		sentinel{"closed", lockpipe.ErrClosed})
	adopting  = append(acquiring, sentinel{"expired", lockpipe.ErrExpired})
	releasing = append(endedEarly,
		sentinel{"expired", lockpipe.ErrExpired},
		sentinel{"lost", lockpipe.ErrLost},
		sentinel{"closed", lockpipe.ErrClosed},
		sentinel{"no quorum", lockpipe.ErrNoQuorum})
	extending = append(releasing, sentinel{"released", lockpipe.ErrReleased})
	keeping   = extending
	closing   = append(endedEarly, sentinel{"no quorum", lockpipe.ErrNoQuorum})
)

// outcome returns the names of err, and records a violation if err is none of the allowed errors.
func (r *run) outcome(err error, allowed []sentinel) string {
	if err == nil {
		return "ok"
	}
	var names []string
	for _, s := range allowed {
		if errors.Is(err, s.err) {
			names = append(names, s.name)
		}
	}
	if names == nil {
		r.history.violation("an error that is not documented: %v", err)
	}
	return strings.Join(names, ", ")
}
