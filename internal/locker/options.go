package locker

import (
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Options are the options of one call, with the defaults.
type Options struct {
	Kind stats.Call
	// Start is when the call began, if it may wait; zero for a call that begins with its only
	// attempt.
	Start              time.Time
	TTL                time.Duration
	MaxHold            time.Duration // 0: no automatic extension
	MaxAttempts        int           // of a call that waits; 0: no limit
	MinDelay, MaxDelay time.Duration // between two attempts of a call that waits
	Count              int           // how many keys AcquireAny takes; 0: another call
	Fencing            bool
	Refused            bool           // an attempt of the call has failed before
	Turn               *keyqueue.Call // in Locker.Queue; nil: the call does not wait there
	HasFunction        bool           // the call runs a function while it holds the lease
}

// RetryDelay returns a random delay between two attempts of a call that waits.
func (o *Options) RetryDelay() time.Duration {
	delay := o.MinDelay
	if spread := o.MaxDelay - o.MinDelay; spread > 0 {
		delay += rand.N(spread)
	}
	return delay
}
