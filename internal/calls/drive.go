package calls

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
)

// noTimer is a time for a timer that must not fire.
const noTimer = time.Duration(1<<63 - 1)

// drive takes the steps of a call until it ends, and waits in between.
func (c *Calls) drive(ctx context.Context, s *waitingCall, wake <-chan struct{}) (*locker.Lease,
	*locker.Failure,
) {
	timer := time.NewTimer(noTimer)
	defer timer.Stop()
	ended, closing := ctx.Done(), c.locker.Closing()
	for {
		l, delay, f := s.advance(ctx)
		if l != nil || f != nil {
			s.leave(l)
			return l, f
		}
		timer.Reset(delay)
		select {
		case <-wake:
		case <-timer.C:
		case <-ended:
			ended = nil // the call notices it at the next step that it may take
		case <-closing:
			closing = nil
		}
	}
}
