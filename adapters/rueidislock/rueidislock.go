// Package rueidislock has the API of github.com/redis/rueidis/rueidislock on top of lockpipe, so
// that a code base can move file by file: change the import, and the options of NewLocker. While
// only a part has moved, the only node must be the server of rueidislock. Then both libraries
// exclude each other. README.md says what differs.
package rueidislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/redis/rueidis"
)

var (
	// ErrNotLocked means that another holder has the lock. It comes together with lockpipe.ErrHeld.
	ErrNotLocked = errors.New("not locked")
	// ErrLockerClosed means that the Locker was closed, before the call or while it waited.
	ErrLockerClosed = errors.New("locker closed")
)

const (
	defaultKeyPrefix   = "rueidislock"
	defaultKeyValidity = 5 * time.Second
	defaultKeyMajority = 2
	maxKeyMajority     = 128
)

// LockerOption says how NewLocker makes a Locker.
type LockerOption struct {
	// ClientOption is how NewLocker makes the lockpipe.Client. Its Prefix must be empty while
	// rueidislock has the same locks.
	ClientOption lockpipe.Config
	// KeyPrefix begins the keys of each lock, before a colon; "rueidislock" by default.
	KeyPrefix string
	// KeyValidity is how long a lock lasts when its process has died; 5 s by default, and at most
	// ClientOption.MaxTTL.
	KeyValidity time.Duration
	// KeyMajority says how many keys a lock has on each node, KeyMajority*2-1; 2 by default. It
	// must be that of rueidislock while that has the same locks. Then 1 is best. Lockers of this
	// package exclude each other with any number: each takes all of its keys, also the first.
	KeyMajority int32

	// The rest of rueidislock's options exist so that programs compile. NewLocker logs a line about
	// each that is set. README.md says what is in their place.

	// Deprecated: it has no effect.
	ClientBuilder func(option rueidis.ClientOption) (rueidis.Client, error)
	// Deprecated: they have no effect.
	ExtendInterval, TryNextAfter time.Duration
	// Deprecated: they have no effect.
	NoLoopTracking, FallbackSETPX bool

	// MaxHold ends a lock that is not released for that long. By default nothing does while the
	// process lives. It is the bound for a holder that hangs. rueidislock has no such field.
	MaxHold time.Duration
}

// Locker acquires locks. NewLocker makes it. It is safe for concurrent use.
type Locker interface {
	// WithContext acquires the lock name. It waits until ctx ends. The returned context has the
	// values and the deadline of ctx, and is cancelled when the lock ends, for any reason:
	// context.Cause says why. The lock is extended until cancel is called, ctx ends, or the Locker
	// is closed: then it is released. cancel returns when a quorum has confirmed that, or can't be
	// reached; then it continues in the background.
	//
	// The error is ErrLockerClosed, or one of lockpipe.Client.Acquire: mostly ctx's error together
	// with lockpipe.ErrHeld or ErrNoQuorum. The context and cancel are nil then.
	WithContext(ctx context.Context, name string) (context.Context, context.CancelFunc, error)
	// TryWithContext is WithContext in one attempt, which does not wait for a holder. The error is
	// ErrNotLocked if another has the lock, ErrLockerClosed, or one of lockpipe.Client.TryAcquire.
	// On several nodes all callers of the same moment may get ErrNotLocked, because they divide the
	// votes. After an error the context is over, and cancel does nothing.
	TryWithContext(ctx context.Context, name string) (context.Context, context.CancelFunc, error)
	// Client returns the lockpipe.Client, for calls that rueidislock does not have.
	Client() *lockpipe.Client
	// Close releases all locks, ends waiting calls, and closes the Client.
	Close()
}

type locker struct {
	client   *lockpipe.Client
	prefix   string
	validity time.Duration
	keys     int // of each lock
	options  []lockpipe.Option
}

// NewLocker makes a Locker and its lockpipe.Client. It does not wait for the nodes. The error is
// lockpipe.ErrInvalid, and names the field.
func NewLocker(option LockerOption) (Locker, error) {
	if option.KeyMajority > maxKeyMajority {
		return nil, fmt.Errorf("rueidislock: %w: LockerOption.KeyMajority is %d: give at most %d, "+
			"or 1 if no process uses rueidislock any more", lockpipe.ErrInvalid, option.KeyMajority,
			maxKeyMajority)
	}
	option.warn()
	client, err := lockpipe.New(option.ClientOption)
	if err != nil {
		return nil, fmt.Errorf("rueidislock: LockerOption.ClientOption: %w", err)
	}
	l := &locker{
		client:   client,
		prefix:   cmp.Or(option.KeyPrefix, defaultKeyPrefix),
		validity: orDefault(option.KeyValidity, defaultKeyValidity),
		keys:     2*int(orDefault(option.KeyMajority, defaultKeyMajority)) - 1,
	}
	l.options = []lockpipe.Option{
		lockpipe.WithTTL(l.validity),
		lockpipe.WithAutoExtend(orDefault(option.MaxHold, math.MaxInt64)),
	}
	return l, nil
}

// warn logs the options that are set and have no effect.
func (o *LockerOption) warn() {
	logger := cmp.Or(o.ClientOption.Logger, slog.Default())
	for name, isSet := range map[string]bool{
		"ClientBuilder": o.ClientBuilder != nil, "ExtendInterval": o.ExtendInterval != 0,
		"TryNextAfter": o.TryNextAfter != 0, "NoLoopTracking": o.NoLoopTracking,
		"FallbackSETPX": o.FallbackSETPX,
	} {
		if isSet {
			logger.Warn("rueidislock: LockerOption." + name + " has no effect: leave it out")
		}
	}
}

// orDefault returns v, or the default if v is not positive, as rueidislock does.
func orDefault[T ~int32 | ~int64](v, byDefault T) T {
	if v <= 0 {
		return byDefault
	}
	return v
}

func (l *locker) WithContext(ctx context.Context, name string) (context.Context,
	context.CancelFunc, error,
) {
	lease, err := l.client.AcquireAll(ctx, l.keysOf(name), l.options...)
	if err != nil {
		return nil, nil, lockError(err)
	}
	held, cancel := hold(ctx, lease)
	return held, cancel, nil
}

func (l *locker) TryWithContext(ctx context.Context, name string) (context.Context,
	context.CancelFunc, error,
) {
	lease, err := l.client.TryAcquireAll(ctx, l.keysOf(name), l.options...)
	if err == nil {
		held, cancel := hold(ctx, lease)
		return held, cancel, nil
	}
	if err = lockError(err); errors.Is(err, lockpipe.ErrHeld) {
		err = fmt.Errorf("%w: %w", ErrNotLocked, err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	return over, cancel, err
}

// keysOf returns the keys of a lock, as rueidislock has them.
func (l *locker) keysOf(name string) []string {
	keys := make([]string, l.keys)
	for i := range keys {
		keys[i] = l.prefix + ":" + strconv.Itoa(i) + ":" + name
	}
	return keys
}

// lockError is the error of a call of the Client that acquired nothing.
func lockError(err error) error {
	if errors.Is(err, lockpipe.ErrClosed) {
		return ErrLockerClosed
	}
	return err
}

// hold returns the context of a lock, and the function that ends both. If ctx ends, the lock is
// released too.
func hold(ctx context.Context, lease *lockpipe.Lease) (context.Context, context.CancelFunc) {
	held := lease.Bind(ctx)
	release := func() { _ = lease.Release(context.Background()) }
	stop := context.AfterFunc(held, release)
	return held, func() {
		stop()
		release()
	}
}

func (l *locker) Client() *lockpipe.Client { return l.client }

func (l *locker) Close() {
	// What can't be released for that long expires on the nodes.
	ctx, cancel := context.WithTimeout(context.Background(), l.validity)
	defer cancel()
	_ = l.client.Close(ctx)
}
