package preflight

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
)

// OtherServer is a server to which the name of a node leads as well.
type OtherServer struct {
	RunID string // "" if there is no such server
	Votes bool   // it votes for the client
}

// lookForOthers finds out whether the name of a node leads to another server than the one with this
// run_id. It compares with the server that votes for the client. If that is the same, or if there
// is none, it compares with a further connection, while the caller works on its own: a proxy may
// lead each connection to the next server in turn. found gets the result.
func (n *node) lookForOthers(ctx context.Context, runID string, timeout time.Duration,
) chan OtherServer {
	found := make(chan OtherServer, 1)
	voter := n.voter()
	switch {
	case runID == "":
		found <- OtherServer{}
	case voter != "" && voter != runID:
		found <- OtherServer{voter, true}
	default:
		go func() {
			ctx, cancel := context.WithTimeout(ctx, SampleSpan)
			defer cancel()
			var second Facts
			if v, err := n.connect(ctx, &second, timeout); err == nil {
				_ = v.ask(v.info()) // without an answer there is nothing to compare
				v.end()
			}
			found <- OtherServer{RunID: second.RunID()}
		}()
	}
	return found
}

// voter returns the run_id of the server that votes for the client; "" if none does, or if it shows
// none. A server at another address is none, because Sentinel has named another master meanwhile.
func (n *node) voter() string {
	address, runID := n.votes()
	if address != n.dialer.Endpoint.Address {
		return ""
	}
	return runID
}

// votes returns the address and the run_id of the server that votes over a client's link; "" if
// none does.
func votes(l *link.Link) (address, runID string) {
	if c := l.Verified(); c != nil && !c.IsClosed() && l.State() == link.Up {
		return c.Address, c.Server.RunID
	}
	return "", ""
}

// confirm records another server that was found since then, if both are there at the same time. A
// server that has restarted has another run_id too, and so has the next master. So a voter has to
// outlast voterTimeout. And if none votes, the first server has to answer once more, in the same
// role.
func (v *interview) confirm(ctx context.Context, other OtherServer, since time.Time) error {
	switch {
	case other.RunID == "" || other.RunID == v.facts.RunID():
		return nil
	case other.Votes:
		guard.Sleep(ctx, time.Until(since.Add(voterTimeout)))
		if ctx.Err() == nil && v.node.voter() == other.RunID {
			v.facts.Other = other
		}
		return nil
	}
	again := *v
	again.facts = new(Facts)
	if err := again.ask(again.info()); err != nil {
		return err
	}
	_, is := again.facts.master()
	_, was := v.facts.master()
	if again.facts.RunID() == v.facts.RunID() && is == was {
		v.facts.Other = other
	}
	return nil
}
