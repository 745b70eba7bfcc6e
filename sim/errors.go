package sim

import (
	"context"
	"errors"
	"strings"

	"github.com/lockpipe/lockpipe"
)

// sentinel is one documented error, under the name by which histories call it.
type sentinel struct {
	name string
	err  error
}

// What a call may fail with. ErrInvalid and ErrOverloaded are not among them: a run gives no reason
// for either.
var (
	ended     = []sentinel{{"deadline", context.DeadlineExceeded}, {"canceled", context.Canceled}}
	acquiring = append(ended, sentinel{"held", lockpipe.ErrHeld}, sentinel{
		"no quorum",
		lockpipe.ErrNoQuorum,
	}, sentinel{"closed", lockpipe.ErrClosed})
	releasing = append(ended, sentinel{"expired", lockpipe.ErrExpired}, sentinel{
		"lost",
		lockpipe.ErrLost,
	}, sentinel{"closed", lockpipe.ErrClosed},
		sentinel{"no quorum", lockpipe.ErrNoQuorum})
	extending = append(releasing, sentinel{"released", lockpipe.ErrReleased})
	closing   = append(ended, sentinel{"no quorum", lockpipe.ErrNoQuorum})
)

// name returns what err is, and makes a violation of what it may not be.
func (r *run) name(err error, allowed []sentinel) string {
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
