package link

import (
	"errors"
	"regexp"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
)

const (
	// causeMemory is how long a cause has to be absent before it is logged again.
	causeMemory = time.Minute
	// maxCauses is the most causes that are remembered. If a server has a new cause each time, it
	// is logged each time.
	maxCauses = 16
)

// variableParts finds the parts of an error's text that differ from try to try: the local port, and
// times and durations.
var variableParts = regexp.MustCompile(`\b(dial|read|write) (tcp|udp|unix)\d? \S*->|` +
	` \(not connected within .*\)|(took|after) [\d.]+[mµ]?s\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`)

// causes keeps the log of a node short. It has one line for each change of what is wrong, and none
// for a further try that meets a cause that was logged. Causes that alternate are logged once each.
// If a node was up for longer than StableAfter, all is forgotten.
type causes struct {
	up       time.Time            // when the node came up; zero while it is not
	lastSeen map[string]time.Time // when each cause was there last
}

// isNew takes a change of the state. It reports whether to log it as a new cause.
func (c *causes) isNew(s State, err error) (unlogged bool) {
	now := time.Now()
	if s == Up {
		c.up = now
		return false
	}
	if !c.up.IsZero() && now.Sub(c.up) > StableAfter || len(c.lastSeen) >= maxCauses {
		c.lastSeen = nil
	}
	c.up = time.Time{}
	cause := ""
	var q *guard.Quarantine
	switch {
	case errors.As(err, &q): // without its end, which moves
		cause = q.Reason
	case err != nil:
		cause = variableParts.ReplaceAllString(err.Error(), "")
	}
	last, known := c.lastSeen[cause]
	if c.lastSeen == nil {
		c.lastSeen = make(map[string]time.Time)
	}
	c.lastSeen[cause] = now
	return !known || now.Sub(last) > causeMemory
}
