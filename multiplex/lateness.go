package multiplex

import (
	"sync"
	"time"
)

// lateAfter is by how much the process may notice a deadline too late without being late itself.
const lateAfter = 5 * time.Millisecond

// lateness notices that this process itself was late: throttled, stopped, or without a CPU. Then it
// has not read what the nodes answered meanwhile. So it gives no node up for as long again as it
// was late, at most for limit. All methods are safe for concurrent use.
type lateness struct {
	limit time.Duration

	mu    sync.Mutex // guards all below; a leaf
	until time.Time  // when nodes may be given up again
	by    time.Duration
}

// grace takes by how much a deadline has passed, and returns for how much longer no node is to be
// given up. A process that is late all the time gets no more than limit out of two.
func (l *lateness) grace(now time.Time, late time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if late >= lateAfter && now.Sub(l.until) >= l.limit {
		l.by, l.until = late, now.Add(min(late, l.limit))
	}
	return l.until.Sub(now)
}

// since returns how late the process was, if that was noticed after a time.
func (l *lateness) since(t time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.After(t) {
		return l.by
	}
	return 0
}
