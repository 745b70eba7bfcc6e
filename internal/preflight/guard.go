package preflight

import (
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
)

// checkOther reports a node whose name leads to two servers. Clients that reach different ones do
// not exclude each other.
func (f *findings) checkOther(node *target) {
	verb := "answered"
	switch {
	case node.Other.RunID == "":
		return
	case node.Other.Votes:
		verb = "votes"
	}
	f.errorf("leads to more than one server (run_id %s %s, run_id %s answered), and clients that "+
		"reach different ones do not exclude each other: give each server a name of its own, and "+
		"let no Service, load balancer or rolling update put two behind one name",
		node.Other.RunID, verb, node.RunID)
}

// checkAdmission reports what the restart guard has recorded on the node.
func (f *findings) checkAdmission(node *target) {
	if a := node.Admission; a != nil && node.RunID != "" {
		severity, text := admission(a.Text, a.PTTL, node.Info)
		f.addf(severity, "%s", text)
	}
}

// admission says what the key of the restart guard means on a server with these fields of INFO.
// text is "" if there is no key, and left is how long the key lasts.
func admission(text string, left time.Duration, info map[string]string) (Severity, string) {
	switch state, wait := guard.StateOf(text, left, info); state {
	case guard.NoKey:
		return Info, "has no key of the restart guard: no client with this Prefix has used it, or " +
			"it was flushed"
	case guard.Admitted:
		return Info, "was admitted by the restart guard"
	case guard.Waits:
		return Warning, fmt.Sprintf("has no vote: the restart guard lets it wait for %v more",
			wait.Round(time.Second))
	}
	return Warning, "has the restart guard's key of another memory: it restarted or was replaced, " +
		"and has no vote until MaxTTL after a client has connected"
}
