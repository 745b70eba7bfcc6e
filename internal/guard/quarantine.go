package guard

import (
	"fmt"
	"time"
)

// Quarantine is why a node does not vote though its server answers.
type Quarantine struct {
	// Until is when it ends, if enough other nodes answer.
	Until  time.Time
	Reason string
}

// Error has the end and the reason.
func (q *Quarantine) Error() string {
	return fmt.Sprintf("quarantined until %s: %s", q.Until.Format(time.RFC3339), q.Reason)
}

// Why a node is quarantined.
const (
	reasonRestarted = "it restarted, or another server took its place, and may have lost locks"
	reasonWiped     = "its key is gone: it was flushed and may have lost locks"
	reasonMissed    = "another server was in its place, and this one may have missed locks"
	reasonReturned  = "its name leads to more than one server: " + reasonMissed
	reasonNoKey     = "it was never admitted, or it lost its data and maybe locks"
	reasonForeign   = "its key is another memory's: it restarted or has copied data, and may have " +
		"lost locks"
	reasonWaits  = "another client found that it may have lost locks"
	reasonSilent = "its wait is over, but too few other nodes answer to know that of every client"
)

// reason returns why a node waits that shows this. before is the memory that the client saw there
// last, "" for none.
func (g *Guard) reasonFor(s *sight, before string) string {
	_, isRecord := parse(s.text)
	switch {
	case g.returned && g.config.InCluster:
		return reasonMissed
	case g.returned:
		return reasonReturned
	case before != "" && !s.server.owns(before):
		return reasonRestarted
	case s.text == "" && before != "":
		return reasonWiped
	case s.text == "":
		return reasonNoKey
	case isRecord:
		return reasonWaits
	}
	return reasonForeign
}
