package multiplex

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// The prefixes of marks.
const (
	// newPrefix: perhaps the masters are used for the first time. For the first use it counts as no
	// marker.
	newPrefix = "new:"
	// lostPrefix: it is not the first use, so the server has forgotten locks.
	lostPrefix = "lost:"
	// flushedPrefix is lostPrefix if the server was flushed since it was admitted.
	flushedPrefix = lostPrefix + "flushed:"
)

// markOutlasts is how much longer than MaxTTL a mark lasts. If clients live for less than MaxTTL,
// the next one has to come by then, or the wait begins again. A mark that lasts longer would count
// for a server that has left its node meanwhile, and comes back.
const markOutlasts = 10 * time.Minute

// formerKept is for how much longer a mark is kept if it names the run before. By then its age
// counts no more. But it still shows that this is not the first use, and others may vouch for a
// durable master.
const formerKept = 90 * 24 * time.Hour

// mark is the marker of a server that may have forgotten locks and that nobody has admitted since.
// A client leaves it when it sees the server. As long as it stays the same, the server was neither
// flushed nor admitted, so whatever it has forgotten it forgot before the mark was written. So
// every client can count its wait from then.
//
// A copy of the mark says nothing: one that a replica got, or that a restart found in a file.
// History tells.
type mark struct {
	prefix  string
	lasts   time.Duration // from when it is written until it expires
	history string        // of the server, when the mark was written: see sight.history
	former  string        // the run_id that was the marker before; "" if there was none
}

// text is another one each time: the marks of two losses differ.
func (m mark) text() string {
	return m.prefix + strings.Join([]string{m.expiry(), m.history, rand.Text(), m.former}, ":")
}

// expiry is lasts in milliseconds.
func (m mark) expiry() string { return strconv.FormatInt(m.lasts.Milliseconds(), 10) }

// readMark reads the text of a mark. ok is false for the run_id of a server, and for no marker.
func readMark(text string) (m mark, ok bool) {
	for _, prefix := range []string{newPrefix, flushedPrefix, lostPrefix} {
		rest, found := strings.CutPrefix(text, prefix)
		if !found {
			continue
		}
		m.prefix = prefix
		words := strings.Split(rest, ":")
		if len(words) != 4 {
			return m, true
		}
		if ms, err := strconv.ParseInt(words[0], 10, 64); err == nil && ms > 0 && ms < 1<<40 {
			m.lasts = time.Duration(ms) * time.Millisecond
			m.history, m.former = words[1], words[3]
		}
		return m, true
	}
	return m, false
}

// run is the run_id of the server that was admitted here last, as far as the marker shows; "" if it
// does not.
func (s *sight) run() string { return formerRun(s.marker) }

// formerRun is the run_id that a marker is, or that a mark names.
func formerRun(marker string) string {
	if m, ok := readMark(marker); ok {
		return m.former
	}
	return marker
}

// unmarked reports whether the marker is none that rules out the first use.
func (s *sight) unmarked() bool { return s.marker == "" || strings.HasPrefix(s.marker, newPrefix) }

// flushed reports whether the marker says that the server itself was flushed, after it was
// admitted.
func (s *sight) flushed() bool { return strings.HasPrefix(s.marker, flushedPrefix) }

// written is when the mark was written, at the latest. It is zero if the marker is no mark, or if
// the mark may have been written to another memory than the one that the server has now. The server
// counts in its own milliseconds, and may run a command some time after it has looked at its clock,
// so a second is left. If the memory was put back, the mark may be older than the loss.
func (s *sight) written() time.Time {
	m, ok := readMark(s.marker)
	if !ok || m.history == "" || m.history != s.history || s.left <= 0 || s.stale(m) || s.forgot {
		return time.Time{}
	}
	return s.read.Add(-max(0, m.lasts-s.left-time.Second))
}

// stale reports whether the mark is kept only for the run that it names.
func (s *sight) stale(m mark) bool { return m.former != "" && s.left > 0 && s.left < formerKept }

// mark returns the mark that the client is to leave on a server that it does not admit. known: this
// is certainly not the first use. needed is false if the client is to leave what it found.
func (s *sight) mark(maxTTL time.Duration, known bool) (m mark, needed bool) {
	found, isMark := readMark(s.marker)
	m = mark{prefix: newPrefix, lasts: maxTTL + markOutlasts, history: s.history}
	if known || s.marker != "" && !isMark {
		m.prefix = lostPrefix
	}
	switch {
	case s.marker == "":
	case s.forgot && (!isMark || found.former != ""):
		// Nobody is to take it for a restart that lost nothing.
		if isMark && found.prefix != newPrefix {
			m.prefix = found.prefix
		}
	case s.marker == s.runID: // it was a replica, and other clients need not know that
		return m, false
	case !isMark:
		m.former = s.marker
	case s.history != "" && (found.history != s.history || s.stale(found)):
		// It was left on another server, or before another memory came, or too long ago.
		m.former = found.former
		if found.prefix != newPrefix {
			m.prefix = found.prefix
		}
	default:
		return m, found.prefix == newPrefix && known
	}
	switch {
	case s.promoted && s.history != "":
		// It has not all of that run's memory, and a restart would hide that.
		m.former = ""
	case m.former != "":
		m.lasts += formerKept
	}
	return m, true
}
