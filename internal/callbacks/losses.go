package callbacks

import (
	"log/slog"
	"sync"
	"time"
)

// Losses logs lost leases: one line for all that are lost within a second, which may be very many.
// All methods are safe for concurrent use, and none of them blocks.
type Losses struct {
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

// NewLosses returns a Losses without any. run runs a function on a goroutine of its own.
func NewLosses(logger *slog.Logger, run func(f func())) *Losses {
	return &Losses{logger: logger, run: run}
}

// Record counts a lost lease: its first key, and how it ended.
func (l *Losses) Record(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count++; l.count > 1 {
		return
	}
	l.example, l.err = key, err
	l.timer = time.AfterFunc(logDelay, func() { l.run(l.write) })
}

// write logs the line, if any lease was lost since the last one.
func (l *Losses) write() {
	l.mu.Lock()
	count, example, err := l.count, l.example, l.err
	l.count, l.example, l.err = 0, "", nil
	l.mu.Unlock()
	if count > 0 {
		l.logger.Warn("lockpipe: lease lost", slog.Int("leases", count), slog.String("key",
			example), slog.Any("error", err))
	}
}

// Close has the pending line written now.
func (l *Losses) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && l.timer.Stop() {
		l.run(l.write)
	}
}
