package lockpipe

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// leaseEnded is told by the lease manager of each lease that was lost or expired.
func (c *Client) leaseEnded(l *Lease, end error) {
	// A lease that just ran out leaves nothing behind. Whatever was extended by itself, or failed to be, may.
	if end != ErrExpired || l.claim.Unsettled() {
		l.letGo()
	}
	if errors.Is(end, ErrLost) && c.losses.add(l, end) {
		c.callbacks.run(c.losses.log)
	}
	if f := c.cfg.OnLost; f != nil {
		c.callbacks.run(func() { f(l, end) })
	}
}

// losses logs lost leases: one line for those that are lost in quick succession, which may be very many.
type losses struct {
	logger *slog.Logger

	mu      sync.Mutex // guards all below
	count   int        // not yet logged
	example string     // key of the first of them
	err     error      // and how it ended
	logged  time.Time  // when the last line was written
}

// logPause is the shortest time between two lines.
const logPause = time.Second

// add counts a lost lease, and reports whether log is to be called.
func (s *losses) add(l *Lease, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count == 1 {
		s.example, s.err = l.Key(), err
	}
	now := time.Now()
	if !s.logged.IsZero() && now.Sub(s.logged) < logPause {
		return false // the next line tells the number
	}
	s.logged = now
	return true
}

func (s *losses) log() {
	s.mu.Lock()
	count, example, err := s.count, s.example, s.err
	s.count, s.example, s.err = 0, "", nil
	s.mu.Unlock()
	s.logger.Warn("lockpipe: lease lost", slog.Int("leases", count), slog.String("key", example), slog.Any("error", err))
}
