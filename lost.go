package lockpipe

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// leaseEnded is told by the lease manager of each lease that was lost or expired.
func (c *Client) leaseEnded(l *Lease, end error) {
	// A lease that just ran out leaves nothing behind. Whatever was extended by itself, or failed
	// to be, may.
	if end != ErrExpired || l.claim.NeedsCleanup() {
		l.letGo()
	}
	if errors.Is(end, ErrLost) {
		c.losses.add(l, end)
	}
	if f := c.cfg.OnLost; f != nil {
		c.callbacks.run(func() { f(l, end) })
	}
}

// losses logs lost leases: one line for all that are lost within a second, which may be very many.
type losses struct {
	logger *slog.Logger
	run    func(f func()) // runs f on a goroutine of its own, for a logger may block

	mu      sync.Mutex // guards all below
	count   int        // not yet logged
	example string     // key of the first of them
	err     error      // and how it ended
	timer   *time.Timer
}

// logDelay is how long after the first loss the line is written.
const logDelay = time.Second

// add counts a lost lease.
func (s *losses) add(l *Lease, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count > 1 {
		return
	}
	s.example, s.err = l.Key(), err
	if s.timer == nil {
		s.timer = time.AfterFunc(logDelay, s.flush)
	} else {
		s.timer.Reset(logDelay)
	}
}

// flush has what was counted logged.
func (s *losses) flush() { s.run(s.log) }

// log writes the line, if there is something to say.
func (s *losses) log() {
	s.mu.Lock()
	count, example, err := s.count, s.example, s.err
	s.count, s.example, s.err = 0, "", nil
	s.mu.Unlock()
	if count > 0 {
		s.logger.Warn("lockpipe: lease lost", slog.Int("leases", count), slog.String("key",
			example), slog.Any("error", err))
	}
}

// close has the line written now.
func (s *losses) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.flush()
	}
}
