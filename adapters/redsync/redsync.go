// Package redsync has the API of github.com/go-redsync/redsync/v4 on top of lockpipe, so that a
// code base can move file by file. To move, change the import, and give New a lockpipe.Client
// instead of pools. While only a part has moved, both libraries exclude each other on the same
// nodes, if the client has no Config.Prefix.
// README.md says what is left out and what differs.
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

// Redsync makes mutexes. New makes it. It is safe for concurrent use.
type Redsync struct {
	client *lockpipe.Client
	nodes  map[string]int // the index of each in the client's Config, by its address
}

// New returns a Redsync whose mutexes share client. The caller closes the client.
func New(client *lockpipe.Client) *Redsync {
	r := &Redsync{client: client, nodes: make(map[string]int)}
	for i, node := range client.Nodes() {
		r.nodes[node.Addr] = i
	}
	return r
}

// NewMutex returns a mutex with a name, which is its key on the nodes.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		redsync: r, name: name, expiry: defaultExpiry, tries: defaultTries,
		delay: func(int) time.Duration {
			return defaultMinDelay + rand.N(defaultMaxDelay-defaultMinDelay)
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

// DelayFunc returns the delay after a try; the first try is number 1. It is called on a goroutine
// of its own, but not after Lock has returned.
type DelayFunc func(tries int) time.Duration

// WithExpiry sets how long the mutex is locked; 8 s by default. Lock refuses more than the client's
// MaxTTL. For long work WithLease and lockpipe.WithAutoExtend are better.
func WithExpiry(expiry time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries sets how often Lock tries; 32 by default. It determines how long Lock waits: for the
// delays between that many tries, at least a millisecond each. Lock does not sleep meanwhile. It
// queues for the mutex, and is woken when the mutex is free.
func WithTries(tries int) Option {
	return OptionFunc(func(m *Mutex) { m.tries = tries })
}

// WithRetryDelay sets the delay between two tries; by default it is random, 50 to 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// WithRetryDelayFunc is WithRetryDelay with a delay for each try.
func WithRetryDelayFunc(delayFunc DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delayFunc })
}

// WithFailFast changes nothing: lockpipe always answers as soon as the nodes that have not answered
// yet can't change the outcome.
func WithFailFast(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithShufflePools changes nothing: lockpipe asks all nodes at once.
func WithShufflePools(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithSetNXOnExtend changes nothing: while the lock is valid, each extension sets the key again on
// nodes that lost it. An expired mutex stays unlocked, because another holder may have had it
// meanwhile: lock it again.
func WithSetNXOnExtend() Option { return OptionFunc(func(*Mutex) {}) }

// WithLease passes options to lockpipe with each lock, such as lockpipe.WithAutoExtend and
// lockpipe.WithFencing. redsync has no such option.
func WithLease(options ...lockpipe.Option) Option {
	return OptionFunc(func(m *Mutex) { m.options = append(m.options, options...) })
}
