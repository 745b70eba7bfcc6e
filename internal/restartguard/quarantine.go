package restartguard

import (
	"fmt"
	"time"
)

// Quarantine is why a node does not vote though its server answers.
type Quarantine struct {
	Until  time.Time // when it ends, at the latest
	Reason string
	// Renewed: the end moves while the reason lasts.
	Renewed bool
}

// Error has the end and the reason.
func (q *Quarantine) Error() string {
	return fmt.Sprintf("quarantined until %s: %s", q.Until.Format(time.RFC3339), q.Reason)
}

// Cause tells this quarantine from another: it has the end, unless that moves.
func (q *Quarantine) Cause() string {
	if q.Renewed {
		return q.Reason
	}
	return q.Error()
}

// Why a node is quarantined.
const (
	reasonRestarted  = "it restarted and may have lost locks"
	reasonReplaced   = "it is another server than before and may have lost locks"
	reasonWiped      = "its marker is gone: it was flushed and may have lost locks"
	reasonWasReplica = "it was a replica and may have lost locks"
	reasonRestored   = "its disk or memory was put back from an older copy and has lost locks"
	reasonUnvouched  = "it restarted with its disk, and too few other nodes answer to rule out an " +
		"older copy"
	reasonNoMarker      = "it has no marker: it is new, or it lost its data and maybe locks"
	reasonForeignMarker = "its marker is another server's: it restarted or has copied data, and " +
		"may have lost locks"
)

// reasonFor returns why a quarantine begins.
func reasonFor(s *serverInfo, before nodeHistory, recovering bool) string {
	switch {
	case recovering:
		return reasonUnvouched
	case before.replicaRunID == s.runID:
		return reasonWasReplica
	case before.runID != "" && before.runID != s.runID && s.maybePromoted:
		return reasonReplaced
	case before.runID != "" && before.runID != s.runID:
		return reasonRestarted
	case before.admitted && s.formerRun() == "":
		return reasonWiped
	case s.formerRun() == "":
		return reasonNoMarker
	}
	return reasonForeignMarker
}
