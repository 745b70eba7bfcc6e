package preflight

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
)

// checkOther reports a node whose name leads to two servers. Clients that reach different ones do
// not exclude each other.
func (f *findings) checkOther(node *Facts) {
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
		node.Other.RunID, verb, node.RunID())
}

// checkAdmission reports what the restart guard has recorded on the node.
func (f *findings) checkAdmission(node *Facts) {
	a := node.Admission
	if a == nil || node.RunID() == "" {
		return
	}
	switch state, wait := guard.StateOf(a.Text, a.PTTL, node.Info); state {
	case guard.NoKey:
		f.infof("has no key of the restart guard: no client with this Prefix has used it, or " +
			"it was flushed")
	case guard.Admitted:
		f.infof("was admitted by the restart guard")
	case guard.Waits:
		f.warnf("has no vote: the restart guard lets it wait for %v more", wait.Round(time.Second))
	default:
		f.warnf("has the restart guard's key of another memory: it restarted or was replaced, " +
			"and has no vote until MaxTTL after a client has connected")
	}
}
