// Package gocronlock is a distributed locker for gocron: of all schedulers that have a job of the
// same name, one runs it at each tick. It replaces gocron-redis-lock, on a quorum of independent
// Redis masters. Its Elector lets one of all schedulers run all jobs instead.
//
// A short job would run twice in one tick if its lock were released at once: another instance,
// whose clock or timer is a little behind, would find it free. So the lock is kept for
// Config.MinHold. If a job takes longer than the lock lasts, the Client extends the lock, for
// Config.MaxHold at most.
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/lockpipe/lockpipe"
)

const (
	defaultMaxHold = 24 * time.Hour
	defaultMinHold = 400 * time.Millisecond
	// lowestMinHold leaves time for some round trips in the part of it that Lock waits for.
	lowestMinHold = 20 * time.Millisecond
	// waitParts says which part of MinHold Lock waits at most: a quarter. The rest is how far the
	// ticks of two instances may be apart.
	waitParts = 4
)

// Config says how long locks are held. The zero value is right for jobs that run at most once a
// second, on machines whose clocks are synchronised.
type Config struct {
	// MaxHold is the longest time that a run of a job can take; 24 h by default. The lock is
	// extended for that long while the process lives, so a run that hangs keeps the job from
	// running anywhere. A run that takes longer continues without the lock, and lockpipe calls
	// Config.OnLost.
	MaxHold time.Duration
	// MinHold is how long a lock is kept after it was granted, however short the run is; 400 ms by
	// default, and at least 20 ms. If the ticks of two instances are up to three quarters of it
	// apart, they are one tick, for which the job runs once. MinHold has to be shorter than the
	// interval between two ticks of the job, or the next tick is skipped.
	MinHold time.Duration
}

// Locker is a gocron.Locker. New makes it. It is safe for concurrent use, also by several
// schedulers.
type Locker struct {
	client *lockpipe.Client
	cfg    Config
}

var _ gocron.Locker = (*Locker)(nil)

// New returns a locker that acquires its locks with client. The caller closes the client after
// shutting down the schedulers. The key of a lock is the name of the job. The error is
// lockpipe.ErrInvalid, and names the field of cfg.
func New(client *lockpipe.Client, cfg Config) (*Locker, error) {
	if cfg.MaxHold == 0 {
		cfg.MaxHold = defaultMaxHold
	}
	if cfg.MinHold == 0 {
		cfg.MinHold = min(defaultMinHold, cfg.MaxHold)
	}
	switch {
	case client == nil:
		return nil, fmt.Errorf("%w: client is nil", lockpipe.ErrInvalid)
	case cfg.MinHold < lowestMinHold:
		return nil, fmt.Errorf("%w: Config.MinHold is %v: give at least %v, or 0 for the default",
			lockpipe.ErrInvalid, cfg.MinHold, lowestMinHold)
	case cfg.MaxHold < cfg.MinHold:
		return nil, fmt.Errorf("%w: Config.MaxHold is %v, below MinHold (%v)", lockpipe.ErrInvalid,
			cfg.MaxHold, cfg.MinHold)
	}
	return &Locker{client, cfg}, nil
}

// Lock acquires the lock named key. gocron calls it at each tick of a job with the job's name. On
// an error it skips the run and calls AfterLockError. The error is lockpipe.ErrHeld if another
// instance has the lock, or had it less than MinHold ago. Otherwise it is ErrNoQuorum,
// ErrOverloaded, ErrClosed or ErrInvalid, also of lockpipe. After an error nothing is held.
//
// Instances that tick at the same moment split the votes of the nodes, so that none of them gets
// the lock at first. Therefore Lock keeps trying for a quarter of MinHold.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	waitCtx, cancel := context.WithTimeout(ctx, l.cfg.MinHold/waitParts)
	defer cancel()
	hold := lockpipe.WithAutoExtend(l.cfg.MaxHold)
	// NodeTimeout bounds the first try, however short MinHold is.
	lease, err := l.client.TryAcquire(ctx, key, hold)
	if errors.Is(err, lockpipe.ErrHeld) || errors.Is(err, lockpipe.ErrNoQuorum) {
		var waitErr error
		if lease, waitErr = l.client.Acquire(waitCtx, key, hold); waitErr == nil ||
			errors.Is(waitErr, lockpipe.ErrHeld) {
			err = waitErr
		}
	}
	if err != nil {
		return nil, err
	}
	return &lock{lease, time.Now().Add(l.cfg.MinHold)}, nil
}

// lock is an acquired lock.
type lock struct {
	lease *lockpipe.Lease
	until time.Time // it is kept until then
}

// Unlock releases the lock, or schedules that for the end of MinHold. It does so also if ctx has
// ended, as when gocron shuts down during a run. The error is lockpipe's. After ErrExpired or
// ErrLost the lock ended before the run did, and another instance may have run the job meanwhile.
// After ErrNoQuorum, or ctx's error, the nodes have not confirmed the release yet.
func (l *lock) Unlock(ctx context.Context) error {
	left := time.Until(l.until)
	if left <= 0 || l.lease.Err() != nil {
		return l.lease.Release(ctx)
	}
	// A timer, because a call that waits would occupy gocron's runner. If the client is closed
	// first, it has released the lease. Lease.Keep is not for this. It never brings the end of a
	// key nearer, and a key has up to the client's TTL left. That is mostly longer than MinHold, so
	// the next tick would be skipped. Keep also refuses a MinHold above MaxTTL.
	time.AfterFunc(left, func() { _ = l.lease.Release(context.Background()) })
	return nil
}
