package calls

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/outage"
)

// noTimer is a time for a timer that must not fire.
const noTimer = time.Duration(1<<63 - 1)

// drive takes the steps of a call until it ends, and waits in between.
func (c *Calls) drive(ctx context.Context, s *waitingCall, wake <-chan struct{}) (*locker.Lease,
	*locker.Failure,
) {
	var timer *time.Timer // nil before the first delay
	ended, closing := ctx.Done(), c.locker.Closing()
	for {
		l, delay, f := s.advance(ctx)
		if l != nil || f != nil {
			if timer != nil {
				timer.Stop()
			}
			s.leave(l)
			return l, f
		}
		if timer == nil {
			timer = time.NewTimer(delay)
		} else {
			timer.Reset(delay)
		}
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

// parking is a waiting call during an outage, in the queue of a group that lacks a quorum.
type parking struct {
	call outage.Call
	in   *outage.Queue // nil before the first outage
}

// admit reports whether a call for these keys may make an attempt now: see outage.Queue.Admit. A
// call stays in the queue that woke it, unless another group lacks a quorum now.
func (p *parking) admit(c *Calls, keys []string) bool {
	if in, lacks := c.locker.Outage(keys); p.in == nil || lacks && p.in != in {
		p.finish()
		p.in = in
	}
	return p.in.Admit(&p.call)
}

// finish says that the nodes have answered the call, or that the call ends.
func (p *parking) finish() {
	if p.in != nil {
		p.in.Finish(&p.call)
	}
}
