package lockpipe

import (
	"cmp"
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
)

// Option changes one call. Options are plain values: a program may keep them and use them in many
// goroutines. Of two of one kind the last counts. A call with an option that makes no sense returns
// ErrInvalid.
type Option struct {
	kind     optionKind
	min, max time.Duration
	n        int
}

type optionKind uint8

const (
	optionTTL optionKind = iota + 1
	optionAttempts
	optionDelay
	optionAutoExtend
	optionFencing
	optionCount
	optionAny // of AcquireAny itself: WithCount may follow
)

// WithTTL lets the lease last for ttl instead of Config.TTL: at least 10 ms, at most Config.MaxTTL.
// The client rounds it down to whole milliseconds.
func WithTTL(ttl time.Duration) Option { return Option{kind: optionTTL, min: ttl} }

// WithAutoExtend lets the Client extend the lease in the background, each time by its TTL, until
// Release, or until maxHold has passed since the attempt that acquired it. When maxHold has passed,
// the lease ends with ErrExpired. If no extension is confirmed in time, it ends with ErrLost. Each
// extension begins when between two thirds and one third of the validity are left, or some more if
// the TTL is below 150 ms. A failed one is retried until the validity is over. So an outage of the
// nodes that is longer than a third of the TTL may cost the lease, and a TTL below some 20 round
// trips leaves little time for retries. maxHold is at least 10 ms. It is the bound for a holder
// that hangs: make it the longest time that the work can take.
func WithAutoExtend(maxHold time.Duration) Option {
	return Option{kind: optionAutoExtend, min: maxHold}
}

// WithFencing gives the lease a fence: Lease.Fence is a number above the fences of all earlier
// leases on any of its keys, whichever client took them. With it the resource can refuse a holder
// that comes too late with a lower one. Fencing costs no round trip, but some work on the nodes,
// and up to 6 MB there. If the clock of another client was ahead, it costs one round trip more,
// which does not count for WithMaxAttempts. A clock that is wrong by more than ten minutes harms
// few keys besides those that it touched. See docs/fencing.md for what fencing depends on.
func WithFencing() Option { return Option{kind: optionFencing} }

// WithMaxAttempts ends a waiting call after n attempts with the error of the last one; 0 means
// until ctx ends. A call with a limit does not queue behind other callers of the process, and no
// release wakes it: between two attempts it waits for the time of WithRetryDelay. The option has no
// effect on the Try calls, which make one attempt.
func WithMaxAttempts(n int) Option { return Option{kind: optionAttempts, n: n} }

// WithRetryDelay sets the random time between two attempts of a waiting call: 10 to 60 ms by
// default. A node wakes a call without WithMaxAttempts in its turn. So its time counts eight times,
// up to 2 s, and only if no process is before this one. Without a quorum it is at least a
// millisecond. While too few nodes are connected for a quorum, a call without WithMaxAttempts makes
// no further attempt. A time of more than ten years counts as ten years. A time below a
// microsecond, but not 0, is ErrInvalid.
func WithRetryDelay(shortest, longest time.Duration) Option {
	return Option{kind: optionDelay, min: shortest, max: longest}
}

// WithCount lets AcquireAny and TryAcquireAny take n of the keys under one lease, or none of them.
// Other calls refuse it.
func WithCount(n int) Option { return Option{kind: optionCount, n: n} }

// validateCall checks the arguments before anything is sent, and drops repeated keys.
func (c *Client) validateCall(
	ctx context.Context, kind stats.Call, keys []string, opts []Option,
) ([]string, locker.Options, error) {
	o, err := c.applyOptions(opts)
	o.Kind = kind
	switch {
	case err != nil:
		return nil, o, err
	case ctx == nil:
		return nil, o, errNilContext
	}
	if flaw := ids.Flaw(keys, c.cfg.Prefix, &c.reserved); flaw != "" {
		return nil, o, invalid("%s", flaw)
	}
	return ids.Distinct(keys), o, nil
}

// applyOptions applies opts to the defaults and checks the result.
func (c *Client) applyOptions(opts []Option) (locker.Options, error) {
	o := locker.Options{TTL: c.cfg.TTL, MinDelay: defaultMinDelay, MaxDelay: defaultMaxDelay}
	takesAny := false
	for _, opt := range opts {
		switch opt.kind {
		case optionTTL:
			o.TTL = opt.min.Truncate(time.Millisecond)
			if err := checkTTL("WithTTL", opt.min, c.cfg.MaxTTL); err != nil {
				return o, err
			}
		case optionAttempts:
			if o.MaxAttempts = opt.n; opt.n < 0 {
				return o, invalid("WithMaxAttempts(%d): give a positive number, or 0 for until "+
					"ctx ends", opt.n)
			}
		case optionDelay:
			o.MinDelay, o.MaxDelay = min(opt.min, longestDelay), min(opt.max, longestDelay)
			if opt.min < 0 || opt.min > opt.max {
				return o, invalid("WithRetryDelay(%v, %v): give 0 <= shortest <= longest", opt.min,
					opt.max)
			}
			if unitless(opt.max) || unitless(opt.min) {
				return o, invalid("WithRetryDelay(%v, %v): give 0 or at least %v%s", opt.min,
					opt.max, time.Microsecond,
					cmp.Or(meant(opt.max, "Millisecond"), meant(opt.min, "Millisecond")))
			}
		case optionAutoExtend:
			if o.MaxHold = opt.min; opt.min < minTTL {
				return o, invalid("WithAutoExtend(%v): give the longest time to hold the lease, "+
					"at least %v%s", opt.min, minTTL, meant(opt.min, "Second"))
			}
		case optionFencing:
			o.Fencing = true
		case optionAny:
			takesAny, o.Count = true, 1
		case optionCount:
			if o.Count = opt.n; !takesAny {
				return o, invalid("WithCount(%d) is for AcquireAny and TryAcquireAny", opt.n)
			}
		default:
			return o, invalid("an Option that no function of this package made")
		}
	}
	if o.MaxHold > 0 {
		o.TTL = min(o.TTL, lease.TTLFor(min(o.MaxHold, c.cfg.MaxTTL)))
	}
	return o, nil
}

// checkTTL refuses a TTL that cannot be granted. name is the option or method that got it.
func checkTTL(name string, ttl, maxTTL time.Duration) error {
	switch {
	case ttl < minTTL:
		return invalid("%s(%v): a lease lasts at least %v%s", name, ttl, minTTL,
			meant(ttl, "Second"))
	case name == "Keep" && ttl <= maxMaxTTL:
	case name == "Keep":
		return invalid("Keep(%v): give at most %v", ttl, maxMaxTTL)
	case ttl > maxTTL:
		return invalid("%s(%v): above Config.MaxTTL (%v): raise that in every client", name, ttl,
			maxTTL)
	}
	return nil
}
