package redsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Mutex is a distributed mutual exclusion lock. It is safe for concurrent use.
type Mutex struct {
	redsync *Redsync
	name    string
	expiry  time.Duration
	tries   int
	delay   DelayFunc
	options []lockpipe.Option

	mu       sync.Mutex      // guards all below; a leaf
	lease    *lockpipe.Lease // of the last Lock that was granted; nil before the first
	unlocked bool            // and given back
}

// shortestTry is the least time that a try counts for: else one without a delay would take no time
// at all.
const shortestTry = time.Millisecond

// Name returns the name, which is the key on the masters.
func (m *Mutex) Name() string { return m.name }

// Value returns the value of the key, or "" before the first Lock.
func (m *Mutex) Value() string { return m.Lease().Token() }

// Until returns when the lock ends if it is not extended, or the zero time where it is not locked,
// also after Unlock.
func (m *Mutex) Until() time.Time { return m.Lease().Until() }

// Lease returns what was locked last, or nil before the first Lock. Its Context ends when the lock
// does, however. redsync has no such method.
func (m *Mutex) Lease() *lockpipe.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// TryLock is TryLockContext without an end.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext tries once to lock the mutex. The error is ErrFailed and lockpipe's, such as
// lockpipe.ErrHeld or ErrNoQuorum, and ErrTaken where another has it. After any error nothing more
// is held than before.
func (m *Mutex) TryLockContext(ctx context.Context) error {
	lease, err := m.redsync.client.TryAcquire(orBackground(ctx), m.name, m.call()...)
	return m.locked(lease, err)
}

// Lock is LockContext without an end.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext locks the mutex: it waits for it until its tries are over, or ctx ends. The errors
// are those of TryLockContext, and ctx's.
func (m *Mutex) LockContext(ctx context.Context) error {
	ctx = orBackground(ctx)
	if m.tries < 1 {
		return ErrFailed
	}
	lease, err := m.redsync.client.TryAcquire(ctx, m.name, m.call()...)
	if m.tries > 1 && (errors.Is(err, lockpipe.ErrHeld) || errors.Is(err, lockpipe.ErrNoQuorum)) {
		lease, err = m.wait(ctx, err)
	}
	return m.locked(lease, err)
}

// wait goes on after the first try, which failed with err.
func (m *Mutex) wait(ctx context.Context, err error) (*lockpipe.Lease, error) {
	patient, stop := m.patience(ctx)
	defer stop()
	lease, again := m.redsync.client.Acquire(patient, m.name, m.call()...)
	if again == nil {
		return lease, nil
	}
	var held *lockpipe.HeldError
	switch {
	case errors.As(again, &held):
		// Without the error of patient, which is no business of the caller.
		err = held
	case patient.Err() == nil:
		err = again
	}
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", err, end)
	}
	return nil, err
}

// patience returns a context that ends when the delays behind all tries but the last are over. It
// is stopped in any case.
func (m *Mutex) patience(ctx context.Context) (patient context.Context, stop func()) {
	patient, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	ended := patient.Done()
	go func() {
		defer close(done)
		defer cancel()
		for tries := 1; tries < m.tries; tries++ {
			select {
			case <-time.After(max(m.delay(tries), shortestTry)):
			case <-ended:
				return
			}
		}
	}()
	return patient, func() {
		cancel()
		<-done
	}
}

func (m *Mutex) call() []lockpipe.Option {
	return append([]lockpipe.Option{lockpipe.WithTTL(m.expiry)}, m.options...)
}

// locked notes the outcome of a lock.
func (m *Mutex) locked(lease *lockpipe.Lease, err error) error {
	if err != nil {
		return m.redsync.failed(ErrFailed, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease, m.unlocked = lease, false
	return nil
}

// Unlock is UnlockContext without an end.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext gives the lock back, and returns true when a majority of the masters is known not
// to have it any more. Otherwise there is an error: ErrLockAlreadyExpired where it was not locked,
// or no longer; or what lockpipe's Release returned. Then the release goes on in the background,
// also where ctx has ended, and Unlock may be called again to wait for it.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	m.mu.Lock()
	lease, unlocked := m.lease, m.unlocked
	m.mu.Unlock()
	if lease == nil || unlocked {
		return false, ErrLockAlreadyExpired
	}
	err := lease.Release(ctx)
	switch {
	case err == nil:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lease == lease {
			m.unlocked = true
		}
		return true, nil
	case over(err):
		return false, m.redsync.failed(ErrLockAlreadyExpired, err)
	}
	return false, m.redsync.failed(nil, err)
}

// Extend is ExtendContext without an end.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext lets the lock end its expiry from now, and returns true where that was confirmed.
// Otherwise the error is ErrExtendFailed and lockpipe's: with ErrTaken the lock is over, and
// another may have it; without it lasts until Until, and trying again may help.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	if err := m.Lease().Extend(ctx, m.expiry); err != nil {
		return false, m.redsync.failed(ErrExtendFailed, err)
	}
	return true, nil
}

// Valid is ValidContext.
//
// Deprecated: use Until, or Lease().Context(), which is cancelled when the lock ends.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext returns whether the lock lasts, by the local clock; the masters are not asked. The
// error is always nil.
//
// Deprecated: use Until, or Lease().Context(), which is cancelled when the lock ends.
func (m *Mutex) ValidContext(context.Context) (bool, error) { return m.Lease().Err() == nil, nil }

// orBackground allows a nil ctx, as redsync does.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
