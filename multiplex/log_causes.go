package multiplex

import (
	"errors"
	"regexp"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
)

const (
	// causeMemory is how long a cause has to be away before it is logged again.
	causeMemory = time.Minute
	// maxCauses is the most causes that are remembered. A server that has a new one each time is
	// logged each time.
	maxCauses = 16
)

// chance finds what differs from try to try in the text of one and the same error: the local port,
// and times.
var variableParts = regexp.MustCompile(
	`\b(dial|read|write) (tcp|udp|unix)\d? \S*->|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`)

// causes keeps the log of a node short: one line for each change of what is wrong, and none for a
// further try that meets what was logged. Causes that take turns are logged once each. A node that
// was up for longer than steady begins afresh.
type causes struct {
	up   time.Time            // when the node came up; zero while it is not
	seen map[string]time.Time // when each cause was there last
}

// note takes a change of the state. It reports whether that is to be logged as a new cause.
func (c *causes) isNew(s NodeState, err error) (unlogged bool) {
	now := time.Now()
	if s == NodeUp {
		c.up = now
		return false
	}
	if !c.up.IsZero() && now.Sub(c.up) > stableAfter || len(c.seen) >= maxCauses {
		c.seen = nil
	}
	c.up = time.Time{}
	cause := ""
	var q *restartguard.Quarantine
	switch {
	case errors.As(err, &q): // with its end, because another end is another quarantine
		cause = err.Error()
	case err != nil:
		cause = variableParts.ReplaceAllString(err.Error(), "")
	}
	last, known := c.seen[cause]
	if c.seen == nil {
		c.seen = make(map[string]time.Time)
	}
	c.seen[cause] = now
	return !known || now.Sub(last) > causeMemory
}
