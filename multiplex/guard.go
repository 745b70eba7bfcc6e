package multiplex

import (
	"fmt"
	"strings"
	"time"
)

// GuardMode is what the restart guard does. Locks live in the masters' memory, so one that comes
// back without it must not vote until every lock that it may have forgotten has expired.
type GuardMode int

const (
	// GuardAuto: a node votes only when a key on it, the marker, shows that it has forgotten
	// nothing since it was admitted, or when the longest TTL has passed. When no node has a marker
	// and all of them answer, that is taken for the first use, and they are admitted at once. A
	// server that has no run_id to compare is admitted with a warning.
	GuardAuto GuardMode = iota
	// GuardStrict is GuardAuto without these two exceptions: also before the first use the longest
	// TTL passes, and a server without a run_id is down.
	GuardStrict
	// GuardOff: every server votes at once. The marker is neither read nor written.
	GuardOff
)

// String returns the mode as one lower-case word.
func (g GuardMode) String() string {
	switch g {
	case GuardAuto:
		return "auto"
	case GuardStrict:
		return "strict"
	case GuardOff:
		return "off"
	}
	return fmt.Sprintf("GuardMode(%d)", int(g))
}

// Why a node is quarantined.
const (
	whyRestarted = "it has restarted, and may have forgotten locks"
	whyReplaced  = "it is another server than before, and may have forgotten locks"
	whyFlushed   = "its marker is gone, so it was flushed, and may have forgotten locks"
	whyDemoted   = "it was a replica, and may have forgotten locks"
	whyRestored  = "its disk or its memory was put back from an older copy, and has forgotten locks"
	whyUnvouched = "it has restarted with its disk, and too few other nodes answer to show that " +
		"it is not an older copy"
	whyUnmarked = "it has no marker, so it is new, or has lost its data and may have forgotten " +
		"locks"
	whyForeign = "its marker is another server's: it restarted or has copied data, and may have " +
		"forgotten locks"
)

// memory is what this client knows of a node's servers. The zero value knows nothing.
type memory struct {
	runID    string // of the server that was seen last; "" before the first
	admitted bool   // that server was admitted by this client
	known    bool   // a server of this node was
	// seen is when that server was certainly there.
	seen time.Time
	// until is when its quarantine ends; zero: it is in none.
	until time.Time
	why   string
	// marker is what it had at the last look; "" for none.
	marker string
	// history is what that server showed then: see sight.history.
	history string
	// recovering: it restarted with the disk of the run before, and is admitted when other nodes
	// vouch for its memory. sighted is when that was seen.
	recovering bool
	sighted    time.Time
	// replica is the runID of a server that was seen as a replica, until it is admitted: it may
	// have got another server's keys in place of its own, and its own marker among them.
	replica string
	// last is the history of the server that this client admitted last; "" if it showed none.
	last string
}

// verdict is what becomes of a connection.
type verdict struct {
	admitted bool
	mark     bool      // the marker is to be written first
	whole    bool      // it has the memory of the run before
	until    time.Time // where it is not admitted: when it will be
	why      string
}

// assess decides by what a server shows now and by what is known of the node, and returns what is
// known from now on. It is the restart guard without its first use, which is about all nodes. What
// it forgot, a server forgot
//
//   - never, when the marker is its own and it was not seen as a replica, or when it restarted with
//     its durable memory: see recovered;
//   - at its start, when this client knew another server there and it was no replica since. The
//     other server may have been there until it was seen last: a younger one may have waited beside
//     it, and a clock that is set at the start makes it look older;
//   - before a mark was written that is still there;
//   - at some time before now, in all other cases.
func assess(s *sight, m memory, maxTTL time.Duration, now time.Time) (verdict, memory) {
	if relapsed(s, m) {
		m.replica, m.last = s.runID, ""
	}
	before := m
	if m.runID != s.runID {
		m = memory{runID: s.runID, known: m.known, replica: m.replica, last: m.last}
	}
	// It was flushed or admitted, or both, and another client may have had locks on it; or it has
	// another server's memory.
	marked := m.marker != "" && m.marker == s.run() // since then; and nothing happened in between
	if m.marker != s.marker && !marked || m.history != s.history {
		m.until = time.Time{}
	}
	if s.marker != s.runID { // who makes it that has admitted the server since it was a replica
		m.replica = ""
	}
	m.seen, m.marker, m.history = now, s.marker, s.history
	switch {
	case s.marker == s.runID && m.replica != s.runID && !s.forgot:
		return verdict{admitted: true}, m
	case m.until.IsZero(): // first sight
		m.recovering, m.sighted = recovered(s, before), now
		m.until, m.why = now.Add(maxTTL), reason(s, before, m.recovering)
		if start, known := started(s, before, maxTTL, now); known {
			m.until = start.Add(maxTTL)
		}
		if written := s.written(); !written.IsZero() {
			// This client knew another server there, or this one without the mark.
			if before.marker != s.marker && before.seen.After(written) {
				written = before.seen
			}
			m.until = earlier(m.until, written.Add(maxTTL))
		}
	}
	if s.forgot {
		m.recovering, m.why = false, whyRestored
	}
	if m.recovering && s.vouched {
		return verdict{admitted: true, mark: true, whole: true}, m
	}
	if !s.asked.Before(m.until) {
		return verdict{admitted: true, mark: true}, m
	}
	return verdict{until: m.until, why: m.why}, m
}

// relapsed reports whether a server was a replica since this client admitted it, though the client
// did not see that. Then it may have got its own marker back with an older copy of its keys. A
// master without replicas may begin a new history as well, but was not promoted.
func relapsed(s *sight, m memory) bool {
	return strings.HasPrefix(m.last, s.runID+".") && m.last != s.history && s.promoted
}

// recovered reports whether a server restarted with all that it knew: its memory is durable, was so
// at its start as far as one can see, and has the marker of the run before. Durable without a
// marker is a flush or an empty disk. A promoted replica does not have all of its master's memory.
// Where this client saw the run before, it has to be that one: in between there may have been a run
// that was not durable. Its disk may have been put back from a copy, so other nodes have to vouch
// for it. A master draws another master_replid when its first replica comes: that is no loss.
func recovered(s *sight, before memory) bool {
	run := s.run()
	if run == "" || run == s.runID || !s.durable || s.rewritten || s.promoted {
		return false
	}
	same := before.runID == s.runID && before.recovering && formerRun(before.marker) == run
	return before.runID == "" || before.runID == run || same
}

// started returns when a server forgot what its predecessor knew, at the latest, if its start was
// it. A durable one does not lose its marker at its start, and one that was flushed has forgotten
// later.
func started(s *sight, before memory, maxTTL time.Duration, now time.Time) (start time.Time,
	known bool,
) {
	other := before.runID != "" && before.runID != s.runID && !s.promoted
	if !other || s.durable && s.run() == "" || s.flushed() || s.uptime < 0 {
		return time.Time{}, false
	}
	if s.uptime+time.Second+now.Sub(s.introduced) > maxTTL {
		// Perhaps another client has admitted it since, and it was flushed then.
		return time.Time{}, false
	}
	// The difference of two times without their fractions.
	start = now.Add(-max(0, s.uptime-time.Second))
	if before.seen.After(start) {
		start = before.seen
	}
	return start, true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func reason(s *sight, before memory, recovering bool) string {
	switch {
	case recovering:
		return whyUnvouched
	case before.replica == s.runID:
		return whyDemoted
	case before.runID != "" && before.runID != s.runID && s.promoted:
		return whyReplaced
	case before.runID != "" && before.runID != s.runID:
		return whyRestarted
	case before.admitted && s.run() == "":
		return whyFlushed
	case s.run() == "":
		return whyUnmarked
	}
	return whyForeign
}

// settled returns what is known after the server was admitted.
func (m memory) settled() memory {
	m.last = m.history
	m.admitted, m.known, m.marker = true, true, m.runID
	m.until, m.why, m.replica = time.Time{}, "", ""
	m.recovering, m.sighted = false, time.Time{}
	return m
}

// quarantine is why a node does not vote though its server answers.
type quarantine struct {
	until time.Time
	why   string
}

func (q *quarantine) Error() string {
	return fmt.Sprintf("quarantined until %s: %s", q.until.Format(time.RFC3339), q.why)
}
