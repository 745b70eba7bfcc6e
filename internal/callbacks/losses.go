package callbacks

import (
	"log/slog"
	"time"
)

// logDelay is how long after the first loss the line is written.
const logDelay = time.Second

// losses are lost leases that are not logged yet.
type losses struct {
	count   int
	example string      // key of the first of them
	err     error       // how that lease ended
	timer   *time.Timer // has the line written; nil before the first loss
}

// LeaseLost logs a lost lease: its first key, and how it ended. There is one line for all that are
// lost within a second, which may be very many.
func (p *Pool) LeaseLost(key string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.losses
	if l.count++; l.count > 1 {
		return
	}
	l.example, l.err = key, err
	// A logger may block, so that it has a goroutine of its own.
	l.timer = time.AfterFunc(logDelay, func() { p.TryRun(p.logLosses) })
}

// logLosses logs the line, if any lease was lost since the last one.
func (p *Pool) logLosses() {
	p.mu.Lock()
	l := p.losses
	p.losses = losses{timer: l.timer}
	p.mu.Unlock()
	if l.count > 0 {
		p.logger.Warn("lockpipe: lease lost", slog.Int("leases", l.count), slog.String("key",
			l.example), slog.Any("error", l.err))
	}
}
