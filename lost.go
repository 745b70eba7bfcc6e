package lockpipe

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// leaseEnded is what the lease manager calls for each lease that was lost or expired.
func (c *Client) leaseEnded(l *Lease, end error) {
	// A lease that simply expired leaves nothing on the nodes. After an extension, confirmed or
	// not, something may be left.
	if end != ErrExpired || l.claim.NeedsCleanup() {
		l.releaseInBackground()
	} else {
		c.passOn(l, nil)
	}
	if errors.Is(end, ErrLost) {
		c.lossLog.record(l, end)
	}
	if f := c.cfg.OnLost; f != nil {
		c.callbacks.TryRun(func() { f(l, end) })
	}
}

// lossLog logs lost leases: one line for all that are lost within a second, which may be very many.
type lossLog struct {
	logger *slog.Logger
	run    func(f func()) // runs f on a goroutine of its own, because a logger may block

	mu      sync.Mutex // guards all below
	count   int        // of leases that are not logged yet
	example string     // key of the first of them
	err     error      // how that lease ended
	timer   *time.Timer
}

// logDelay is how long after the first loss the line is written.
const logDelay = time.Second

// record counts a lost lease.
func (s *lossLog) record(l *Lease, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count > 1 {
		return
	}
	s.example, s.err = l.Key(), err
	if s.timer == nil {
		s.timer = time.AfterFunc(logDelay, s.scheduleWrite)
	} else {
		s.timer.Reset(logDelay)
	}
}

// scheduleWrite has the line written on a goroutine of its own.
func (s *lossLog) scheduleWrite() { s.run(s.write) }

// write logs the line, if any lease was lost since the last one.
func (s *lossLog) write() {
	s.mu.Lock()
	count, example, err := s.count, s.example, s.err
	s.count, s.example, s.err = 0, "", nil
	s.mu.Unlock()
	if count > 0 {
		s.logger.Warn("lockpipe: lease lost", slog.Int("leases", count), slog.String("key",
			example), slog.Any("error", err))
	}
}

// close has the pending line written now.
func (s *lossLog) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.scheduleWrite()
	}
}
