package multiplex

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"
)

const (
	// How long and how often a node without a marker is looked at, before it is quarantined, for
	// the marker of another client.
	markingPatience = 100 * time.Millisecond
	markingPause    = 10 * time.Millisecond
	// How long and how often a server that restarted with its disk waits for other nodes to vouch
	// for it, each time that it is looked at.
	vouchPatience = 300 * time.Millisecond
	vouchPause    = 20 * time.Millisecond
)

var (
	errReplica = errors.New("READONLY: it is a replica of another server; the nodes have to be " +
		"independent masters")
	errNamed = errors.New("READONLY: the sentinels name it as the master, and it is a replica: " +
		"a failover may be under way")
)

// admission decides for one node whether a connection may be used. Owned by the keeper, and by
// rueidis' dial hook, which runs for the keeper alone.
type admission struct {
	node   int
	addr   string
	mode   GuardMode
	maxTTL time.Duration // which a quarantine lasts; with deposedFor if Sentinel watches the master
	marker string        // "" where the guard is off
	// generations is generationsKey, behind the prefix; known is shared by all nodes.
	generations string
	known       *generations
	none        string // noneKey, behind the prefix
	probe       string // the key that this node alone sets: see node.tellApart
	first       *firstUse
	// servers is shared by all nodes.
	servers *servers
	option  *rueidis.ClientOption
	logger  *slog.Logger
	// replicated: Sentinel watches the master, so it has replicas, and one of them may have voted.
	replicated bool

	memory   memory
	answered bool // some server has answered the handshake
	warned   bool // that the node can't be guarded
	// warnedSame: that it may be the same server as another node. warnedRenewal: that its
	// generation can't be renewed.
	warnedSame, warnedRenewal bool
	renewed                   time.Time // when the generation was renewed last, or tried to be
}

func (m *Mux) newAdmission(index int, e *endpoint) *admission {
	option := e.option // which gets the login of each connection
	a := &admission{
		node: index, addr: e.name, mode: m.cfg.Guard, maxTTL: m.cfg.MaxTTL, first: m.first,
		servers: m.servers, option: &option, logger: m.cfg.Logger,
		none: m.cfg.Prefix + probeKeyPrefix, generations: m.cfg.Prefix + generationsKey,
		known: m.generations,
	}
	a.probe, a.replicated = a.none+rand.Text(), e.masterSet != ""
	if a.replicated {
		a.maxTTL += deposedFor
	}
	if a.mode != GuardOff {
		a.marker = m.cfg.Prefix + markerKey
	}
	return a
}

// admit makes the handshake on a new connection, before anything else can use it. It returns the
// run_id that the marker has from now on, or "" where the node is not guarded. A *quarantine, or
// any other error, is why the connection must not be used.
func (a *admission) admit(ctx context.Context, l *nodeConn) (runID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	runID, err = a.examine(ctx, l)
	if !stop() {
		return "", ctx.Err()
	}
	return runID, err
}

func (a *admission) examine(ctx context.Context, l *nodeConn) (runID string, err error) {
	h := newHandshake(l)
	s, err := h.introduce(a.option, a.marker, a.generations, a.none+rand.Text())
	a.answered = a.answered || err == nil
	if err == errUnanswered && !a.answered && a.option.TLSConfig == nil {
		err = fmt.Errorf("%w; the client came without TLS: if the server wants it, use rediss://",
			err)
	}
	l.deletion.Store(int32(s.deletion))
	if !s.unmarked() {
		a.first.ruleOut()
	}
	var former string
	if err == nil {
		l.movedAt, former, err = a.servers.claim(s.runID, a.node, l)
	}
	switch {
	case err != nil || a.mode == GuardOff:
		return "", err
	case s.runID == "" && a.memory.runID != "":
		return "", fmt.Errorf("it does not show a run_id any more: %w", s.silence)
	case s.runID == "":
		return "", a.unguarded(s.silence)
	case s.replica:
		a.memory.replica = s.runID
		if a.replicated {
			return "", errNamed
		}
		return "", errReplica
	}
	a.suspectReplicas(&s)
	v, err := a.decide(ctx, h, &s)
	switch {
	case err != nil:
		return "", err
	case !v.admitted:
		a.servers.quarantined(l)
		return "", &quarantine{v.until, v.why}
	}
	var questions []question
	shown := s.own.id
	if former != "" {
		questions = append(questions, end(former))
	}
	if v.mark {
		generation := ""
		if !v.whole {
			generation = s.newGeneration(a.known.except(a.node))
		}
		// Another client may have admitted the server at the same moment, so what is kept now is
		// read again.
		questions = append(questions, s.admission(a.marker, a.generations, generation),
			s.readGenerations(a.generations))
	}
	if err := h.ask(questions); err != nil {
		return "", err
	}
	l.durable, l.history = s.durable, s.history
	if shown != s.own.id {
		a.known.ended(a.node, shown)
	}
	a.known.confirmed(a.node, s.runID, s.own)
	a.known.heard(a.node, s.others, s.asked)
	a.first.ruleOut()
	a.memory = a.memory.settled()
	a.servers.admitted(l, s.client)
	return s.runID, nil
}

// suspectReplicas trusts no memory of a master that Sentinel watches, if another server may have
// voted since. Its own marker shows then that it forgot nothing, and not that it has all locks.
func (a *admission) suspectReplicas(s *sight) {
	if !a.replicated {
		return
	}
	s.rewritten, s.uptime = true, -1 // neither its disk nor its age says what a replica has granted
	if before := a.memory.runID; before == "" || before == s.runID {
		return
	}
	a.memory.replica = s.runID
}

// decide is assess, and the first use. A server that is not admitted is marked first: see mark. If
// there is no marker nonetheless, nothing would show at the next look that the server was admitted
// and flushed. So the wait begins then.
func (a *admission) decide(ctx context.Context, h *handshake, s *sight) (verdict, error) {
	before := a.memory
	defer func() {
		if a.memory.marker == "" {
			a.memory.until = time.Time{}
		}
	}()
	s.forgot = a.known.forgot(s.own)
	v := a.assess(s, before)
	if a.memory.recovering {
		if err := a.vouch(ctx, h, s); err != nil {
			return verdict{}, err
		}
		v = a.assess(s, a.memory)
	}
	firstSight := before.runID != s.runID || !v.until.Equal(before.until) // a wait begins now
	var err error
	if !v.admitted {
		v, err = a.leave(h, s, v, before, firstSight)
	}
	// Also if the wait is over: the other nodes need this one to meet for the first use.
	if err != nil || a.mode != GuardAuto || !s.unmarked() || before.known {
		return v, err
	}
	first, err := a.first.join(ctx, a.node, func() (bool, error) {
		err := h.look(a.marker, s)
		return s.unmarked(), err
	})
	if err == nil && first {
		return verdict{admitted: true, mark: true}, nil
	}
	if err == nil && firstSight && !v.admitted {
		err = a.await(ctx, h, s)
	}
	if err != nil {
		return verdict{}, err
	}
	v = a.assess(s, a.memory)
	if missing, possible := a.first.missing(); possible && s.unmarked() {
		v.why = whyFirstUse(a.servers.names, missing)
	}
	return v, nil
}

// vouch waits a moment for other nodes to show whether a server restarted with its whole memory.
// Meanwhile it keeps what its own node knows of the others up to date, because they may have
// restarted with it.
func (a *admission) vouch(ctx context.Context, h *handshake, s *sight) error {
	a.known.renewOthers(a.node)
	for end := time.Now().Add(vouchPatience); ; {
		s.forgot = a.known.forgot(s.own)
		s.vouched = !s.forgot && a.known.vouch(a.node, s.own, a.memory.sighted, a.mode)
		if s.vouched || s.forgot || !time.Now().Before(end) {
			return nil
		}
		sleepCtx(ctx, vouchPause)
		asked := time.Now()
		if err := h.ask([]question{s.readGenerations(a.generations)}); err != nil {
			return err
		}
		a.known.recovering(a.node, s.others, asked)
	}
}

// noFirstUse reports whether this is certainly not the first use, neither of this client nor of
// another one that has just begun it and whose markers are on their way.
func (a *admission) noFirstUse() bool {
	return a.memory.known || a.mode == GuardStrict || a.first.overFor() > connectTimeout
}

// leave leaves a mark, if it is needed. A wait begins behind it, so that nothing can happen unseen
// in between. If this client could not replace the marker of another run at first sight, its wait
// continues.
func (a *admission) leave(h *handshake, s *sight, v verdict, before memory,
	firstSight bool,
) (verdict, error) {
	m, needed := s.mark(a.maxTTL, a.noFirstUse())
	if !needed {
		return v, nil
	}
	if v.why == whyFlushed && m.prefix == lostPrefix {
		m.prefix = flushedPrefix
	}
	own, err := h.leave(a.marker, a.generations, m, s)
	switch {
	case err != nil:
		return verdict{}, err
	case firstSight:
		return a.assess(s, before), nil
	case own:
		a.memory.marker = s.marker
	}
	return a.assess(s, a.memory), nil
}

// await waits for a marker. Several clients may make the first use at the same moment: who finds
// the markers half written waits for the rest.
func (a *admission) await(ctx context.Context, h *handshake, s *sight) error {
	for end := time.Now().Add(markingPatience); s.unmarked() && time.Now().Before(end); {
		sleepCtx(ctx, markingPause)
		if err := h.look(a.marker, s); err != nil {
			return err
		}
	}
	return nil
}

// assess judges what the server shows by what was known before, and keeps what is known then.
func (a *admission) assess(s *sight, before memory) (v verdict) {
	v, a.memory = assess(s, before, a.maxTTL, time.Now())
	return v
}

// unguarded admits a server that can't be told from one that restarted, if the mode allows it.
func (a *admission) unguarded(why error) error {
	if a.mode == GuardStrict {
		return fmt.Errorf("its restarts can't be noticed (%w), and GuardStrict admits no such "+
			"server", why)
	}
	if !a.warned {
		a.warned = true
		a.logger.Warn("lockpipe: node has no restart guard: a restart may let two callers hold "+
			"the same lock",
			slog.String("node", a.addr), slog.Any("error", why))
	}
	a.first.exempt(a.node)
	return nil
}

// demoted notes that the server answered as a replica.
func (a *admission) demoted() { a.memory.replica = a.memory.runID }

// left notes that the connection to the server was there until now.
func (a *admission) left() { a.memory.seen = time.Now() }
