package restartguard

import (
	"context"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

const (
	// How long and how often the guard looks for another client's marker, before it quarantines a
	// node without one.
	markerTimeout = 100 * time.Millisecond
	markerDelay   = 10 * time.Millisecond
	// How long and how often a server that restarted with its disk waits for other nodes to vouch
	// for it, each time that the guard looks at it.
	vouchTimeout = 300 * time.Millisecond
	vouchDelay   = 20 * time.Millisecond
)

// decideWithPeers decides about a server, and lets other nodes have their say: they may vouch for
// its memory, or meet with it for the first use. If the server has no marker in the end, nothing
// would show at the next look that it was admitted and wiped. So the wait begins then.
func (g *Guard) decideWithPeers(ctx context.Context, c *resp.Conn, s *serverInfo) (decision,
	error,
) {
	before := g.history
	defer func() {
		if g.history.marker == "" {
			g.history.until = time.Time{}
		}
	}()
	d, begins, err := g.decideVouched(ctx, c, s)
	// The other nodes need this one to meet for the first use, also if its own wait is over.
	if err != nil || g.config.Strict || !s.allowsFirstUse() || before.everAdmitted {
		return d, err
	}
	return g.decideFirstUse(ctx, c, s, d, begins && !d.admit)
}

// decideVouched decides without the first use, and writes a loss record if the server is not
// admitted and needs one. begins reports whether a wait begins with this look.
func (g *Guard) decideVouched(ctx context.Context, c *resp.Conn, s *serverInfo) (d decision,
	begins bool, err error,
) {
	before := g.history
	generations := g.peers.generations
	s.outdated = generations.isOutdated(s.own) || s.marker != s.runID &&
		generations.hasOlderMemory(g.config.Node, s.own, s.formerRun())
	d = g.decide(s, before)
	if g.history.recovering {
		if err := g.awaitVouchers(ctx, c, s); err != nil {
			return decision{}, false, err
		}
		d = g.decide(s, g.history)
	}
	begins = before.runID != s.runID || !d.until.Equal(before.until)
	if !d.admit {
		d, err = g.recordLoss(c, s, d, before, begins)
	}
	return d, begins, err
}

// decideFirstUse waits a moment for the other nodes. awaits: it also waits for the marker of
// another client.
func (g *Guard) decideFirstUse(ctx context.Context, c *resp.Conn, s *serverInfo, d decision,
	awaits bool,
) (decision, error) {
	first, err := g.peers.firstUse.await(ctx, g.config.Node, func() (bool, error) {
		err := g.readMarker(c, s)
		return s.allowsFirstUse(), err
	})
	if err == nil && first {
		return decision{admit: true, writeMarker: true}, nil
	}
	if err == nil && awaits {
		err = g.awaitMarker(ctx, c, s)
	}
	if err != nil {
		return decision{}, err
	}
	d = g.decide(s, g.history)
	if missing, possible := g.peers.firstUse.missing(); possible && s.allowsFirstUse() {
		d.reason = firstUseReason(g.peers.names, missing)
	}
	return d, nil
}

// decide is decide with what was known before, and keeps what is known then.
func (g *Guard) decide(s *serverInfo, before nodeHistory) (d decision) {
	d, g.history = decide(s, before, g.config.MaxTTL, time.Now())
	return d
}

// awaitVouchers waits a moment for other nodes to show whether a server restarted with its whole
// memory. Meanwhile it keeps what its own node knows of the others up to date, because they may
// have restarted with it.
func (g *Guard) awaitVouchers(ctx context.Context, c *resp.Conn, s *serverInfo) error {
	generations, node := g.peers.generations, g.config.Node
	generations.renewOthers(node)
	for end := time.Now().Add(vouchTimeout); ; {
		s.outdated = generations.isOutdated(s.own)
		s.vouched = !s.outdated &&
			generations.vouch(node, s.own, g.history.recoveringSince, g.config.Strict)
		if s.vouched || s.outdated || !time.Now().Before(end) {
			return nil
		}
		sleep(ctx, vouchDelay)
		askedAt := time.Now()
		if err := c.Do(s.generationsStep(g.config.Generations)); err != nil {
			return err
		}
		generations.hearRecovering(node, s.others, askedAt)
	}
}

// awaitMarker waits for a marker. Several clients may make the first use at the same moment: a
// client that finds the markers half written waits for the rest.
func (g *Guard) awaitMarker(ctx context.Context, c *resp.Conn, s *serverInfo) error {
	for end := time.Now().Add(markerTimeout); s.allowsFirstUse() && time.Now().Before(end); {
		sleep(ctx, markerDelay)
		if err := g.readMarker(c, s); err != nil {
			return err
		}
	}
	return nil
}

// noFirstUse reports whether this is certainly not the first use, neither of this client nor of
// another one that has just begun it and whose markers are on their way.
func (g *Guard) noFirstUse() bool {
	return g.history.everAdmitted || g.config.Strict ||
		g.peers.firstUse.decidedFor() > g.config.ConnectTimeout
}

// recordLoss writes a loss record, if it is needed. A wait begins behind it, so that nothing can
// happen unseen in between. If this client could not replace the marker of another run at first
// sight, its wait continues.
func (g *Guard) recordLoss(c *resp.Conn, s *serverInfo, d decision, before nodeHistory,
	begins bool,
) (decision, error) {
	r, needed := s.nextRecord(g.config.MaxTTL, g.noFirstUse())
	if !needed {
		return d, nil
	}
	if d.reason == reasonWiped && r.prefix == lossPrefix {
		r.prefix = wipedPrefix
	}
	own, err := g.writeRecord(c, r, s)
	switch {
	case err != nil:
		return decision{}, err
	case begins:
		return g.decide(s, before), nil
	case own:
		g.history.marker = s.marker
	}
	return g.decide(s, g.history), nil
}

// readMarker reads the marker again.
func (g *Guard) readMarker(c *resp.Conn, s *serverInfo) error {
	s.markerAskedAt = time.Now()
	return c.Do(s.markerSteps(g.config.Marker)...)
}

// writeRecord puts a loss record in the place of the marker that was seen, and reads what is there
// then. own reports whether it was written. Why not makes no difference to this client.
func (g *Guard) writeRecord(c *resp.Conn, r lossRecord, s *serverInfo) (own bool, err error) {
	value, generations := r.text(), ""
	if s.own.id != "" && r.formerRun == "" {
		generations = noGeneration
	}
	s.markerAskedAt = time.Now()
	write := resp.Step{Command: []string{
		"EVALSHA", script.WriteMarker.SHA, "2", g.config.Marker, g.config.Generations, s.marker,
		value, r.expiry(), generations,
	}}
	err = c.Do(append([]resp.Step{write}, s.markerSteps(g.config.Marker)...)...)
	return s.marker == value, err
}

// writeMarker writes the marker, and the generations if there are some, if the marker is still what
// was seen: another client may have admitted the server meanwhile, and it may have been wiped.
func (g *Guard) writeMarker(s *serverInfo, generations string) resp.Step {
	marker := g.config.Marker
	check := func(v resp.Value) error {
		if err := v.Err(); err != nil {
			return fmt.Errorf("the marker %q can't be written: %w", marker, err)
		}
		if v.Text != "1" {
			return fmt.Errorf("the marker %q has changed since it was looked at", marker)
		}
		return nil
	}
	return resp.Step{Command: []string{
		"EVALSHA", script.WriteMarker.SHA, "2", marker, g.config.Generations, s.marker, s.runID, "",
		generations,
	}, OnReply: check}
}

// newGenerations returns what a node is to keep that has lost something: a generation of its own,
// if it is durable, and those of others; empty to leave it without any.
func (s *serverInfo) newGenerations(others []generation) (text string) {
	switch {
	case s.durable:
		text = newGenerationID() + "=1"
	case s.own.id == "" && len(others) == 0:
		return ""
	default:
		text = noGeneration
	}
	for _, g := range others {
		text += " " + g.text()
	}
	return text
}

// sleep returns after d or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
