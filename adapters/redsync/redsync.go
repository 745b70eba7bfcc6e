// Package redsync has the face of github.com/go-redsync/redsync/v4 over lockpipe, so that a code
// base moves over file by file: the import is changed, and where New was given pools it is given a
// lockpipe.Client. While only a part has moved, both exclude each other on the same masters, if the
// client has no Config.Prefix.
//
// What is left out, and what differs, stands in README.md.
package redsync

import (
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	defaultExpiry   = 8 * time.Second
	defaultTries    = 32
	defaultMinDelay = 50 * time.Millisecond
	defaultMaxDelay = 250 * time.Millisecond
)

// Redsync makes mutexes. It is made by New, and safe for concurrent use.
type Redsync struct {
	client *lockpipe.Client
	nodes  map[string]int // the place of each in the client's Config, by its address
}

// New returns a Redsync of which all mutexes share client, which the caller closes.
func New(client *lockpipe.Client) *Redsync {
	r := &Redsync{client: client, nodes: make(map[string]int)}
	for i, node := range client.Nodes() {
		r.nodes[node.Addr] = i
	}
	return r
}

// NewMutex returns a mutex of that name, which is its key on the masters.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		redsync: r, name: name, expiry: defaultExpiry, tries: defaultTries,
		delay: func(int) time.Duration {
			return defaultMinDelay +
				rand.N(defaultMaxDelay-defaultMinDelay)
		},
	}
	for _, o := range options {
		o.Apply(m)
	}
	return m
}

// Option changes a mutex when it is made.
type Option interface{ Apply(*Mutex) }

// OptionFunc is an Option.
type OptionFunc func(*Mutex)

// Apply calls f.
func (f OptionFunc) Apply(m *Mutex) { f(m) }

// DelayFunc returns the pause behind a try, of which the first is number 1. It is called on a
// goroutine of its own, but not after Lock has returned.
type DelayFunc func(tries int) time.Duration

// WithExpiry is for how long the mutex is locked: 8 s. More than the client's MaxTTL is refused
// when it is locked: WithLease and lockpipe.WithAutoExtend are better for long work.
func WithExpiry(expiry time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries is how often Lock tries: 32. It says how long Lock waits: for the delays between so
// many tries, but at least for a millisecond each. It does not sleep meanwhile, but waits in line
// for the mutex, and is woken when that is free.
func WithTries(tries int) Option {
	return OptionFunc(func(m *Mutex) { m.tries = tries })
}

// WithRetryDelay is the delay between two tries: random, 50 to 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// WithRetryDelayFunc is WithRetryDelay with a delay for each try.
func WithRetryDelayFunc(delayFunc DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delayFunc })
}

// WithFailFast changes nothing: lockpipe always answers as soon as the masters that are still to
// answer can't change the outcome.
func WithFailFast(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithShufflePools changes nothing: lockpipe asks all masters at once.
func WithShufflePools(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithSetNXOnExtend changes nothing: each extension gives the key back to masters that lost it,
// while the lock is valid. A mutex whose time is over stays unlocked, since another may have had it
// meanwhile: lock it again.
func WithSetNXOnExtend() Option { return OptionFunc(func(*Mutex) {}) }

// WithLease gives options to lockpipe with each lock, such as lockpipe.WithAutoExtend and
// lockpipe.WithFencing. redsync has no such option.
func WithLease(options ...lockpipe.Option) Option {
	return OptionFunc(func(m *Mutex) { m.options = append(m.options, options...) })
}
