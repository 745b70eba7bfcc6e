// Package losslog logs lost leases: one line for all that are lost within a second, which may be
// very many.
package losslog

import (
	"log/slog"
	"sync"
	"time"
)

// Log logs lost leases. All methods are safe for concurrent use, and none of them blocks.
type Log struct {
	logger *slog.Logger
	run    func(f func()) // because a logger may block

	mu      sync.Mutex // guards all below
	count   int        // of leases that are not logged yet
	example string     // key of the first of them
	err     error      // how that lease ended
	timer   *time.Timer
}

// logDelay is how long after the first loss the line is written.
const logDelay = time.Second

// New returns a Log that has lost no lease. run runs a function on a goroutine of its own.
func New(logger *slog.Logger, run func(f func())) *Log { return &Log{logger: logger, run: run} }

// Record counts a lost lease: its first key, and how it ended.
func (s *Log) Record(key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count > 1 {
		return
	}
	s.example, s.err = key, err
	if s.timer == nil {
		s.timer = time.AfterFunc(logDelay, s.scheduleWrite)
	} else {
		s.timer.Reset(logDelay)
	}
}

// scheduleWrite has the line written on a goroutine of its own.
func (s *Log) scheduleWrite() { s.run(s.write) }

// write logs the line, if any lease was lost since the last one.
func (s *Log) write() {
	s.mu.Lock()
	count, example, err := s.count, s.example, s.err
	s.count, s.example, s.err = 0, "", nil
	s.mu.Unlock()
	if count > 0 {
		s.logger.Warn("lockpipe: lease lost", slog.Int("leases", count), slog.String("key",
			example), slog.Any("error", err))
	}
}

// Close has the pending line written now.
func (s *Log) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.scheduleWrite()
	}
}
