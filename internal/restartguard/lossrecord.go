package restartguard

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// The prefixes of loss records.
const (
	// newPrefix: perhaps the nodes are used for the first time. For the first use it counts as no
	// marker.
	newPrefix = "new:"
	// lossPrefix: it is not the first use, so the server has lost locks.
	lossPrefix = "lost:"
	// wipedPrefix is lossPrefix if the server was wiped since it was admitted.
	wipedPrefix = lossPrefix + "flushed:"
)

// recordOutlasts is how much longer than MaxTTL a loss record lasts. If clients live for less than
// MaxTTL, the next one has to come by then, or the wait begins again. A record that lasts longer
// would count for a server that has left its node meanwhile, and comes back.
const recordOutlasts = 10 * time.Minute

// formerRunKept is for how much longer a loss record is kept if it names the run before. By then
// its age counts no more. But it still shows that this is not the first use, and others may vouch
// for a durable server.
const formerRunKept = 90 * 24 * time.Hour

// lossRecord is the marker of a server that may have lost locks and that nobody has admitted since.
// A client writes it when it sees the server. As long as it stays the same, the server was neither
// wiped nor admitted, so whatever it has lost it lost before the record was written. So every
// client can count its wait from then.
//
// A copy of the record says nothing: one that a replica got, or that a restart found in a file. The
// memory ID shows that it is a copy.
type lossRecord struct {
	prefix    string
	lasts     time.Duration // from when it is written until it expires
	memoryID  string        // of the server, when the record was written: see serverInfo.memoryID
	formerRun string        // the run_id that was the marker before; "" if there was none
}

// text is another one each time: the records of two losses differ.
func (r lossRecord) text() string {
	return r.prefix + strings.Join([]string{r.expiry(), r.memoryID, rand.Text(), r.formerRun}, ":")
}

// expiry is lasts in milliseconds.
func (r lossRecord) expiry() string { return strconv.FormatInt(r.lasts.Milliseconds(), 10) }

// parseLossRecord reads the text of a loss record. ok is false for the run_id of a server, and for
// no marker. A record of another form has a prefix and nothing else.
func parseLossRecord(text string) (r lossRecord, ok bool) {
	for _, prefix := range []string{newPrefix, wipedPrefix, lossPrefix} {
		rest, found := strings.CutPrefix(text, prefix)
		if !found {
			continue
		}
		r.prefix = prefix
		words := strings.Split(rest, ":")
		if len(words) != 4 {
			return r, true
		}
		if ms, err := strconv.ParseInt(words[0], 10, 64); err == nil && ms > 0 && ms < 1<<40 {
			r.lasts = time.Duration(ms) * time.Millisecond
			r.memoryID, r.formerRun = words[1], words[3]
		}
		return r, true
	}
	return r, false
}

// formerRun returns the run_id that a marker is, or that a loss record names; "" if there is none.
func formerRun(marker string) string {
	if r, ok := parseLossRecord(marker); ok {
		return r.formerRun
	}
	return marker
}

// formerRun returns the run_id of the server that was admitted here last, as far as the marker
// shows; "" if it does not.
func (s *serverInfo) formerRun() string { return formerRun(s.marker) }

// allowsFirstUse reports whether there is no marker that rules out the first use.
func (s *serverInfo) allowsFirstUse() bool {
	return s.marker == "" || strings.HasPrefix(s.marker, newPrefix)
}

// wiped reports whether the marker says that the server itself was wiped, after it was admitted.
func (s *serverInfo) wiped() bool { return strings.HasPrefix(s.marker, wipedPrefix) }

// recordedAt returns when the loss record was written, at the latest. It is zero if the marker is
// no record, or if the record may have been written to another memory than the server's present
// one. The server counts in its own milliseconds, and may run a command some time after it has
// looked at its clock, so a second is left. If the memory was put back, the record may be older
// than the loss.
func (s *serverInfo) recordedAt() time.Time {
	r, ok := parseLossRecord(s.marker)
	if !ok || r.memoryID == "" || r.memoryID != s.memoryID || s.expiresIn <= 0 ||
		s.onlyNamesRun(r) || s.outdated {
		return time.Time{}
	}
	return s.markerReadAt.Add(-max(0, r.lasts-s.expiresIn-time.Second))
}

// onlyNamesRun reports whether the record is kept only for the run that it names.
func (s *serverInfo) onlyNamesRun(r lossRecord) bool {
	return r.formerRun != "" && s.expiresIn > 0 && s.expiresIn < formerRunKept
}

// nextRecord returns the loss record that the client is to write on a server that it does not
// admit. noFirstUse: this is certainly not the first use. needed is false if the client is to leave
// what it found.
func (s *serverInfo) nextRecord(maxTTL time.Duration, noFirstUse bool) (r lossRecord, needed bool) {
	found, isRecord := parseLossRecord(s.marker)
	r = lossRecord{prefix: newPrefix, lasts: maxTTL + recordOutlasts, memoryID: s.memoryID}
	if noFirstUse || s.marker != "" && !isRecord {
		r.prefix = lossPrefix
	}
	switch {
	case s.marker == "":
	case s.outdated && (!isRecord || found.formerRun != ""):
		// It names no run: nobody is to take it for a restart that lost nothing.
		r.keepLoss(found)
	case s.marker == s.runID: // it was a replica, and other clients need not know that
		return r, false
	case !isRecord:
		r.formerRun = s.marker
	case s.memoryID != "" && (found.memoryID != s.memoryID || s.onlyNamesRun(found)):
		// It was written on another server, or before another memory came, or too long ago.
		r.formerRun = found.formerRun
		r.keepLoss(found)
	default:
		return r, found.prefix == newPrefix && noFirstUse
	}
	if s.maybePromoted && s.memoryID != "" {
		// It has not all of that run's memory, and a restart would hide that.
		r.formerRun = ""
	}
	if r.formerRun != "" {
		r.lasts += formerRunKept
	}
	return r, true
}

// keepLoss keeps what the record before says of a loss.
func (r *lossRecord) keepLoss(before lossRecord) {
	if before.prefix == lossPrefix || before.prefix == wipedPrefix {
		r.prefix = before.prefix
	}
}
