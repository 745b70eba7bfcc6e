package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"
	"github.com/lockpipe/lockpipe"
)

// ErrNotLeader is the error of Elector.IsLeader while another instance leads, or none.
var ErrNotLeader = errors.New("gocronlock: not the leader")

// Elector is a gocron.Elector: of all schedulers with an elector of the same key, one runs all jobs
// of all ticks. NewElector makes it, and it campaigns until Stop. It is safe for concurrent use,
// also by several schedulers.
type Elector struct {
	lease atomic.Pointer[lockpipe.Lease] // of the last term; nil before the first
	stop  context.CancelFunc
	ended chan struct{} // closed when the campaign has ended
	err   error         // why it ended; set before ended is closed
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an elector that campaigns for key in a goroutine of its own, by Client.Elect
// with opts. lockpipe.WithTTL says how soon another instance takes over when the leader has died.
// The caller stops the elector after shutting down its schedulers, and closes client then. The
// error is lockpipe.ErrInvalid if client is nil. If the key or an option is invalid, IsLeader and
// Stop return that error.
func NewElector(client *lockpipe.Client, key string, opts ...lockpipe.Option) (*Elector, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: client is nil", lockpipe.ErrInvalid)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		e.err = client.Elect(ctx, key, e.lead, opts...)
	}()
	return e, nil
}

// lead is one term.
func (e *Elector) lead(ctx context.Context, l *lockpipe.Lease) error {
	e.lease.Store(l)
	<-ctx.Done()
	return nil
}

// IsLeader returns nil if this instance leads now. gocron calls it before each run, and skips the
// run on an error. The error is ErrNotLeader, or why the campaign has ended: lockpipe's ErrClosed
// or ErrInvalid. IsLeader does not block: it reads the local clock. A run that has begun continues
// if the instance loses its lead meanwhile.
func (e *Elector) IsLeader(context.Context) error {
	if l := e.lease.Load(); l != nil && l.Err() == nil {
		return nil
	}
	select {
	case <-e.ended:
		if e.err != nil && !errors.Is(e.err, context.Canceled) {
			return e.err
		}
	default:
	}
	return ErrNotLeader
}

// Stop ends the campaign, or the lead: then another instance leads at once, also while runs of this
// one last. It returns when that is done, or when ctx ends, with ctx's error; then it continues in
// the background. Another Stop waits again. If the release was not confirmed, or the campaign had
// ended before, the error is that of Client.Elect.
func (e *Elector) Stop(ctx context.Context) error {
	e.stop()
	select {
	case <-e.ended:
	case <-ctx.Done():
		return fmt.Errorf("gocronlock: stop: %w", ctx.Err())
	}
	if errors.Is(e.err, context.Canceled) {
		return nil
	}
	return e.err
}
