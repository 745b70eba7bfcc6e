// Package gocronlock is a distributed locker for gocron: of all schedulers that have a job of the
// same name, one runs it at each tick. It takes the place of gocron-redis-lock, on a quorum of
// independent Redis masters.
//
// A short job would run twice in one tick if its lock were given back at once: another instance,
// whose clock or timer is a little behind, would find it free. So the lock is kept for
// Config.MinHold. A job that takes longer than the lock lasts keeps it: the Client extends it, for
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
	// shortestHold leaves time for some trips in the part of it that Lock waits for.
	shortestHold = 20 * time.Millisecond
	// waitParts is which part of MinHold Lock waits for at most. The rest is how far the ticks of
	// two instances may be apart.
	waitParts = 4
)

// Config says how long locks are held. The zero value is right for jobs that run once a second or
// less often, on machines whose clocks are synchronised.
type Config struct {
	// MaxHold is the longest that a run of a job can take: 24 h. Its lock is extended for so long
	// while the process lives, so a run that hangs keeps the job from running anywhere. A run that
	// takes longer goes on without the lock, and lockpipe's Config.OnLost is told.
	MaxHold time.Duration
	// MinHold is for how long a lock is kept after it was granted, however short the run is: 400
	// ms, and at least 20 ms. Ticks of two instances that are up to three quarters of it apart are
	// one tick, for which the job runs once. It has to be shorter than the interval between two
	// ticks of the job, or the next one is skipped.
	MinHold time.Duration
}

// Locker is a gocron.Locker. It is made by New, and safe for concurrent use, also by several
// schedulers.
type Locker struct {
	client *lockpipe.Client
	cfg    Config
}

var _ gocron.Locker = (*Locker)(nil)

// New returns a locker that takes its locks by client, which the caller closes after the schedulers
// were shut down. The key of a lock is the name of the job. The error is lockpipe.ErrInvalid, and
// names the field of cfg.
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
	case cfg.MinHold < shortestHold:
		return nil, fmt.Errorf("%w: Config.MinHold is %v: give at least %v, or 0 for the default",
			lockpipe.ErrInvalid, cfg.MinHold, shortestHold)
	case cfg.MaxHold < cfg.MinHold:
		return nil, fmt.Errorf("%w: Config.MaxHold is %v, below MinHold (%v)", lockpipe.ErrInvalid,
			cfg.MaxHold, cfg.MinHold)
	}
	return &Locker{client, cfg}, nil
}

// Lock takes the lock named key. gocron calls it at each tick of a job with the job's name, and
// skips the run on an error, which it tells AfterLockError: lockpipe.ErrHeld where another instance
// has the lock, or had it less than MinHold ago; else ErrNoQuorum, ErrOverloaded, ErrClosed or
// ErrInvalid, also of lockpipe. Then nothing is held.
//
// Instances that tick at the same moment split the votes of the masters, so that none of them is
// granted the lock at first. Therefore Lock goes on for a quarter of MinHold.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	patient, cancel := context.WithTimeout(ctx, l.cfg.MinHold/waitParts)
	defer cancel()
	hold := lockpipe.WithAutoExtend(l.cfg.MaxHold)
	// NodeTimeout bounds it, however short MinHold is.
	lease, err := l.client.TryAcquire(ctx, key, hold)
	if errors.Is(err, lockpipe.ErrHeld) || errors.Is(err, lockpipe.ErrNoQuorum) {
		var again error
		if lease, again = l.client.Acquire(patient, key, hold); again == nil ||
			errors.Is(again, lockpipe.ErrHeld) {
			err = again
		}
	}
	if err != nil {
		return nil, err
	}
	return &lock{lease, time.Now().Add(l.cfg.MinHold)}, nil
}

// lock is a lock that was granted.
type lock struct {
	lease *lockpipe.Lease
	until time.Time // it is kept until then
}

// Unlock gives the lock back, or has it given back when MinHold is over, also where ctx has ended,
// as it has when gocron shuts down in the middle of a run. The error is lockpipe's: ErrExpired or
// ErrLost where the lock was over before the run, so that another may have run the job meanwhile;
// with ErrNoQuorum, or ctx's error, the masters have not confirmed yet that it is free.
func (l *lock) Unlock(ctx context.Context) error {
	left := time.Until(l.until)
	if left <= 0 || l.lease.Err() != nil {
		return l.lease.Release(ctx)
	}
	// A timer, since gocron's runner would be occupied by a call that waits. Where the client is
	// closed first, it has released the lease.
	time.AfterFunc(left, func() { _ = l.lease.Release(context.Background()) })
	return nil
}
