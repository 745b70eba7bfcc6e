package inspection

import (
	"context"
	"sync"
	"time"
)

// OtherServer is a server to which the name of a node leads as well.
type OtherServer struct {
	RunID string // "" if there is no such server
	Votes bool   // it votes for the client
}

// sighting is a run_id that is not that of the inspection's connection.
type sighting struct {
	OtherServer
	at time.Time // when the run_id of the inspection's connection was known as well
}

// lookForOthers finds out whether the name of a node leads to another server than the one with this
// run_id. It compares with the server that votes for the client. If that is the same, or if there
// is none, it compares with a further connection, while the caller works on its own: a proxy may
// lead each connection to the next server in turn. found waits for the result.
func (all *Inspector) lookForOthers(ctx context.Context, n *node, runID string) (
	found func() sighting,
) {
	now := time.Now()
	if runID == "" {
		return func() sighting { return sighting{} }
	}
	if voter := n.voter(); voter != "" && voter != runID {
		return func() sighting { return sighting{OtherServer{voter, true}, now} }
	}
	ctx, cancel := context.WithTimeout(ctx, SampleSpan)
	var second Facts
	var asking sync.WaitGroup
	asking.Go(func() {
		defer cancel()
		if v, err := all.open(ctx, n, &second); err == nil {
			defer v.end()
			_ = v.ask(v.info()) // without an answer there is nothing to compare
		}
	})
	return func() sighting {
		asking.Wait()
		return sighting{OtherServer{RunID: second.RunID}, now}
	}
}

// voter returns the run_id of the server that votes for the client; "" if none does. A server at
// another address is none, because Sentinel has named another master meanwhile.
func (n *node) voter() string {
	if n.Voter == nil {
		return ""
	}
	address, runID := n.Voter()
	if address != n.dialer.Endpoint.Address {
		return ""
	}
	return runID
}

// confirm records another server, if both are there at the same time. A server that has restarted
// has another run_id too, and so has the next master. So a voter has to outlast voterTimeout. And
// if none votes, the first server has to answer once more, in the same role.
func (v *interview) confirm(ctx context.Context, n *node, other sighting) error {
	switch {
	case other.RunID == "" || other.RunID == v.facts.RunID:
		return nil
	case other.Votes:
		if rest := time.Until(other.at.Add(voterTimeout)); rest > 0 {
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return nil
			}
		}
		if n.voter() == other.RunID {
			v.facts.Other = other.OtherServer
		}
		return nil
	}
	again := interview{conn: v.conn, facts: new(Facts), hide: v.hide, timeout: v.timeout}
	if err := again.ask(again.info()); err != nil {
		return err
	}
	if again.facts.RunID == v.facts.RunID && again.facts.Replica == v.facts.Replica {
		v.facts.Other = other.OtherServer
	}
	return nil
}
