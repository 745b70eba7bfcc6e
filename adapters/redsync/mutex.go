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
	unlocked bool            // and it was released
}

// minTryTime is the least time that a try counts for. Otherwise a try without a delay would take no
// time at all.
const minTryTime = time.Millisecond

// Name returns the name, which is the key on the nodes.
func (m *Mutex) Name() string { return m.name }

// Value returns the value of the key, or "" before the first Lock.
func (m *Mutex) Value() string { return m.Lease().Token() }

// Until returns when the lock ends if it is not extended. It returns the zero time if the mutex is
// not locked, also after Unlock.
func (m *Mutex) Until() time.Time { return m.Lease().Until() }

// Lease returns the lease of the last lock, or nil before the first Lock. Its Context ends when the
// lock ends, for any reason. redsync has no such method.
func (m *Mutex) Lease() *lockpipe.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// TryLock is TryLockContext without an end.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext tries once to lock the mutex. The error is ErrFailed and lockpipe's, such as
// lockpipe.ErrHeld or ErrNoQuorum. It is also ErrTaken if another holder has the mutex. After an
// error nothing more is held than before.
func (m *Mutex) TryLockContext(ctx context.Context) error {
	lease, err := m.redsync.client.TryAcquire(orBackground(ctx), m.name, m.acquireOptions()...)
	return m.recordLock(lease, err)
}

// Lock is LockContext without an end.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext locks the mutex. It waits for the mutex until its tries are over or ctx ends. The
// errors are those of TryLockContext, and ctx's.
func (m *Mutex) LockContext(ctx context.Context) error {
	ctx = orBackground(ctx)
	if m.tries < 1 {
		return ErrFailed
	}
	lease, err := m.redsync.client.TryAcquire(ctx, m.name, m.acquireOptions()...)
	if m.tries > 1 && (errors.Is(err, lockpipe.ErrHeld) || errors.Is(err, lockpipe.ErrNoQuorum)) {
		lease, err = m.keepTrying(ctx, err)
	}
	return m.recordLock(lease, err)
}

// keepTrying continues after the first try, which failed with err.
func (m *Mutex) keepTrying(ctx context.Context, err error) (*lockpipe.Lease, error) {
	triesCtx, stop := m.triesContext(ctx)
	defer stop()
	lease, waitErr := m.redsync.client.Acquire(triesCtx, m.name, m.acquireOptions()...)
	if waitErr == nil {
		return lease, nil
	}
	var held *lockpipe.HeldError
	switch {
	case errors.As(waitErr, &held):
		// Without the error of triesCtx, which the caller does not know.
		err = held
	case triesCtx.Err() == nil:
		err = waitErr
	}
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", err, ctxErr)
	}
	return nil, err
}

// triesContext returns a context that ends when the delays after all tries but the last are over.
// The caller must always call stop.
func (m *Mutex) triesContext(ctx context.Context) (triesCtx context.Context, stop func()) {
	triesCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	ended := triesCtx.Done()
	go func() {
		defer close(done)
		defer cancel()
		for tries := 1; tries < m.tries; tries++ {
			select {
			case <-time.After(max(m.delay(tries), minTryTime)):
			case <-ended:
				return
			}
		}
	}()
	return triesCtx, func() {
		cancel()
		<-done
	}
}

func (m *Mutex) acquireOptions() []lockpipe.Option {
	return append([]lockpipe.Option{lockpipe.WithTTL(m.expiry)}, m.options...)
}

// recordLock records the outcome of a lock.
func (m *Mutex) recordLock(lease *lockpipe.Lease, err error) error {
	if err != nil {
		return m.redsync.wrap(ErrFailed, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease, m.unlocked = lease, false
	return nil
}

// Unlock is UnlockContext without an end.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext releases the lock, and returns true when a majority of the nodes is known not to
// have it any more. Otherwise it returns an error: ErrLockAlreadyExpired if the mutex was not
// locked (any more), or the error of lockpipe's Release. In the second case the release continues
// in the background, also if ctx has ended, and Unlock may be called again to wait for it.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	m.mu.Lock()
	lease, unlocked := m.lease, m.unlocked
	m.mu.Unlock()
	if lease == nil || unlocked {
		return false, ErrLockAlreadyExpired
	}
	err := lease.Release(ctx)
	ended := leaseEnded(err)
	if err != nil && !ended {
		return false, m.redsync.wrap(nil, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease == lease {
		m.unlocked = true
	}
	if ended {
		return false, m.redsync.wrap(ErrLockAlreadyExpired, err)
	}
	return true, nil
}

// Extend is ExtendContext without an end.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext extends the lock by its whole expiry from now, and returns true if that was
// confirmed. Otherwise the error is ErrExtendFailed and lockpipe's. If it is also ErrTaken, the
// lock has ended, and another holder may have it. If not, the lock lasts until Until, and a retry
// may help.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	if err := m.Lease().Extend(ctx, m.expiry); err != nil {
		return false, m.redsync.wrap(ErrExtendFailed, err)
	}
	return true, nil
}

// Valid is ValidContext.
//
// Deprecated: use Until, or Lease().Context(), which is cancelled when the lock ends.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext returns whether the lock lasts, by the local clock; it does not ask the nodes. The
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
