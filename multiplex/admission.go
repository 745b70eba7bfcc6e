package multiplex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"
)

// markerKey, behind the prefix, is the admission marker: its value is the run_id of the server that was admitted last, and it does not
// expire. The application's keys must not have this name.
const markerKey = "lockpipe:admitted"

const (
	// How long and how often a node without a marker is looked at, before it is quarantined, for the marker of another client.
	markingPatience = 100 * time.Millisecond
	markingPause    = 10 * time.Millisecond
)

var errReplica = errors.New("READONLY: it is a replica of another server; the nodes have to be independent masters")

// admission decides for one node whether a connection may be used. Owned by the keeper, and by rueidis' dial hook, which runs for the
// keeper alone.
type admission struct {
	node   int
	addr   string
	mode   GuardMode
	maxTTL time.Duration
	marker string // "" where the guard is off
	first  *firstUse
	option *rueidis.ClientOption
	logger *slog.Logger

	memory memory
	former string // the server's number of the last connection that was admitted; "" where it does not tell
	warned bool   // that the node can't be guarded
}

func (m *Mux) newAdmission(index int, e *endpoint) *admission {
	a := &admission{
		node: index, addr: e.address, mode: m.cfg.Guard, maxTTL: m.cfg.MaxTTL, first: m.first, option: &e.option, logger: m.cfg.Logger,
	}
	if a.mode != GuardOff {
		a.marker = m.cfg.Prefix + markerKey
	}
	return a
}

// admit makes the handshake on a new connection, before anything else can use it. It returns the run_id that the marker has from now on, or ""
// where the node is not guarded. A *quarantine, or any other error, is why the connection must not be used.
func (a *admission) admit(ctx context.Context, l *line) (runID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	runID, err = a.examine(ctx, newHandshake(l))
	if !stop() {
		return "", ctx.Err()
	}
	return runID, err
}

func (a *admission) examine(ctx context.Context, h *handshake) (runID string, err error) {
	s, err := h.introduce(a.option, a.marker)
	switch {
	case err != nil || a.mode == GuardOff:
		return "", err
	case s.runID == "" && a.memory.known:
		return "", fmt.Errorf("it does not show a run_id any more: %w", s.silence)
	case s.runID == "":
		return "", a.unguarded(s.silence)
	case s.replica:
		return "", errReplica
	}
	if s.marked {
		a.first.ruleOut()
	}
	former := ""
	if s.runID == a.memory.runID && a.memory.admitted {
		former = a.former
	}
	v, err := a.decide(ctx, h, &s)
	switch {
	case err != nil:
		return "", err
	case !v.admitted:
		return "", &quarantine{v.until, v.why}
	}
	if err := h.settle(former, a.marker, &s, v.mark); err != nil {
		return "", err
	}
	a.first.ruleOut()
	a.memory, a.former = a.memory.settled(), s.client
	return s.runID, nil
}

// decide is assess, and the first use. Several clients may make that at the same moment: who finds the markers half written waits for the rest.
func (a *admission) decide(ctx context.Context, h *handshake, s *sight) (verdict, error) {
	firstSight := a.memory.runID != s.runID || a.memory.until.IsZero()
	v, m := assess(s, a.memory, a.maxTTL, time.Now())
	a.memory = m
	if v.admitted || s.marked || a.mode != GuardAuto {
		return v, nil
	}
	if a.first.join(ctx, a.node) {
		return verdict{admitted: true, mark: true}, nil
	}
	for end := time.Now().Add(markingPatience); firstSight && !v.admitted && time.Now().Before(end); {
		rest(ctx, markingPause)
		if err := h.look(a.marker, s); err != nil {
			return verdict{}, err
		}
		v, a.memory = assess(s, a.memory, a.maxTTL, time.Now())
	}
	return v, nil
}

// unguarded admits a server that can't be told from one that restarted, if the mode allows it.
func (a *admission) unguarded(why error) error {
	if a.mode == GuardStrict {
		return fmt.Errorf("its restarts can't be noticed (%w), and GuardStrict admits no such server", why)
	}
	if !a.warned {
		a.warned = true
		a.logger.Warn("lockpipe: node has no restart guard: a restart may let two callers hold the same lock",
			slog.String("node", a.addr), slog.Any("error", why))
	}
	a.first.exempt(a.node)
	return nil
}

// left notes that the connection to the server was there until now.
func (a *admission) left() { a.memory.seen = time.Now() }
