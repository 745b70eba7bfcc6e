package restartguard

import (
	"strings"
	"time"
)

// nodeHistory is what this client knows of a node's servers. The zero value knows nothing.
type nodeHistory struct {
	runID        string // of the server that was seen last; "" before the first
	admitted     bool   // that server was admitted by this client
	everAdmitted bool   // a server of this node was
	// lastSeen is when that server was certainly there.
	lastSeen time.Time
	// until is when its quarantine ends; zero: it is in none.
	until  time.Time
	reason string
	// marker is what it had at the last look; "" for none.
	marker string
	// memoryID is what that server showed then: see serverInfo.memoryID.
	memoryID string
	// recovering: it restarted with the disk of the run before, and is admitted when other nodes
	// vouch for its memory. recoveringSince is when that was seen.
	recovering      bool
	recoveringSince time.Time
	// replicaRunID is the run_id of a server that was seen as a replica, until it is admitted: it
	// may have got another server's keys in place of its own, and its own marker among them.
	replicaRunID string
	// admittedMemoryID is the memory ID of the server that this client admitted last; "" if it
	// showed none.
	admittedMemoryID string
}

// decision is what becomes of a connection.
type decision struct {
	admit       bool
	writeMarker bool      // the marker is to be written first
	keptMemory  bool      // it has the memory of the run before
	until       time.Time // if it is not admitted: when it will be
	reason      string
}

// decide decides by what a server shows now and by what is known of the node, and returns what is
// known from now on. It is the restart guard without its first use, which is about all nodes. What
// it lost, a server lost
//
//   - never, if the marker is its own and it was not seen as a replica, or if it restarted with its
//     durable memory: see recoveredFromDisk;
//   - at its start, if this client knew another server there and it was no replica since: see
//     restartTime;
//   - before a loss record was written that is still there;
//   - at some time before now, in all other cases.
func decide(s *serverInfo, before nodeHistory, maxTTL time.Duration, now time.Time) (decision,
	nodeHistory,
) {
	if wasReplicaUnseen(s, before) {
		before.replicaRunID, before.admittedMemoryID = s.runID, ""
	}
	h := before.look(s, now)
	switch {
	case s.marker == s.runID && h.replicaRunID != s.runID && !s.outdated:
		return decision{admit: true}, h
	case h.until.IsZero(): // first sight
		h.recovering, h.recoveringSince = recoveredFromDisk(s, before), now
		h.reason = reasonFor(s, before, h.recovering)
		h.until = waitEnd(s, before, maxTTL, now)
	}
	if s.outdated {
		h.recovering, h.reason = false, reasonRestored
	}
	switch {
	case h.recovering && s.vouched:
		return decision{admit: true, writeMarker: true, keptMemory: true}, h
	case !s.markerAskedAt.Before(h.until):
		return decision{admit: true, writeMarker: true}, h
	}
	return decision{until: h.until, reason: h.reason}, h
}

// look returns what is known after a look at the node. until is zero if a wait has to begin.
func (h nodeHistory) look(s *serverInfo, now time.Time) nodeHistory {
	if h.runID != s.runID {
		h = nodeHistory{
			runID: s.runID, everAdmitted: h.everAdmitted, replicaRunID: h.replicaRunID,
			admittedMemoryID: h.admittedMemoryID,
		}
	}
	// If the marker or the memory is another one, the server was wiped or admitted, or both, and
	// another client may have had locks on it; or it has another server's memory. If the marker was
	// only replaced by a loss record that names it, nothing happened in between.
	recorded := h.marker != "" && h.marker == s.formerRun()
	if h.marker != s.marker && !recorded || h.memoryID != s.memoryID {
		h.until = time.Time{}
	}
	if s.marker != s.runID { // who makes it that has admitted the server since it was a replica
		h.replicaRunID = ""
	}
	h.lastSeen, h.marker, h.memoryID = now, s.marker, s.memoryID
	return h
}

// afterAdmission returns what is known after the server was admitted.
func (h nodeHistory) afterAdmission() nodeHistory {
	return nodeHistory{
		runID: h.runID, marker: h.runID, admitted: true, everAdmitted: true,
		lastSeen: h.lastSeen, memoryID: h.memoryID, admittedMemoryID: h.memoryID,
	}
}

// wasReplicaUnseen reports whether a server was a replica since this client admitted it, though the
// client did not see that. Then it may have got its own marker back with an older copy of its keys.
// A master without replicas may draw another master_replid as well, but was not promoted.
func wasReplicaUnseen(s *serverInfo, h nodeHistory) bool {
	return strings.HasPrefix(h.admittedMemoryID, s.runID+".") &&
		h.admittedMemoryID != s.memoryID && s.maybePromoted
}

// recoveredFromDisk reports whether a server restarted with all that it knew: its memory is
// durable, was so at its start as far as one can see, and has the marker of the run before. Durable
// without a marker is a wipe or an empty disk. A promoted replica does not have all of its master's
// memory. If this client saw the run before, it has to be that one: in between there may have been
// a run that was not durable. Its disk may have been put back from a copy, so other nodes have to
// vouch for it. A master draws another master_replid when its first replica comes: that is no loss.
func recoveredFromDisk(s *serverInfo, before nodeHistory) bool {
	run := s.formerRun()
	if run == "" || run == s.runID || !s.durable || s.aofRewritten || s.maybePromoted {
		return false
	}
	same := before.runID == s.runID && before.recovering && formerRun(before.marker) == run
	return before.runID == "" || before.runID == run || same
}

// waitEnd returns when a wait ends that begins now.
func waitEnd(s *serverInfo, before nodeHistory, maxTTL time.Duration, now time.Time) time.Time {
	end := now.Add(maxTTL)
	if start, known := restartTime(s, before, maxTTL, now); known {
		end = start.Add(maxTTL)
	}
	recorded := s.recordedAt()
	if recorded.IsZero() {
		return end
	}
	// This client knew another server there, or this one without the record.
	if before.marker != s.marker && before.lastSeen.After(recorded) {
		recorded = before.lastSeen
	}
	if sooner := recorded.Add(maxTTL); sooner.Before(end) {
		return sooner
	}
	return end
}

// restartTime returns when a server lost what its predecessor knew, at the latest, if its start was
// the loss. A durable one does not lose its marker at its start, and one that was wiped has lost
// its memory later. The predecessor may have been there until it was seen last: a younger server
// may have waited next to it, and a clock that is set at the start makes a server look older.
func restartTime(s *serverInfo, before nodeHistory, maxTTL time.Duration, now time.Time) (
	start time.Time, known bool,
) {
	other := before.runID != "" && before.runID != s.runID && !s.maybePromoted
	if !other || s.durable && s.formerRun() == "" || s.wiped() || s.uptime < 0 {
		return time.Time{}, false
	}
	if s.uptime+time.Second+now.Sub(s.uptimeAskedAt) > maxTTL {
		// Perhaps another client has admitted it since, and it was wiped then.
		return time.Time{}, false
	}
	// The difference of two times without their fractions.
	start = now.Add(-max(0, s.uptime-time.Second))
	if before.lastSeen.After(start) {
		start = before.lastSeen
	}
	return start, true
}
