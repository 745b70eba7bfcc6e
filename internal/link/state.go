package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
)

// ErrClosed is why a node is down whose Link was closed.
var ErrClosed = errors.New("closed")

// State says whether a node can vote.
type State int

const (
	// Connecting: the first connection, or the one after a loss, is being made. Attempts wait for
	// it, each within its timeout.
	Connecting State = iota
	// Up: connected.
	Up
	// Quarantined: the node answers, but may have forgotten locks, because it has restarted, was
	// replaced or was flushed. Until these locks have expired nothing is sent to it, and its vote
	// is unknown at once. From time to time the client connects to read the guard's key.
	Quarantined
	// Down: the last try to connect failed. The client continues to try in the background. The
	// node's vote is unknown at once.
	Down
	// Failing: connected, but the owner has found that the node refuses what it should execute.
	Failing
)

// String returns the state as one lower-case word.
func (s State) String() string {
	names := [...]string{"connecting", "up", "quarantined", "down", "failing"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("NodeState(%d)", int(s))
	}
	return names[s]
}

// Rejects reports whether a node in this state is sent nothing.
func (s State) Rejects() bool { return s == Down || s == Quarantined }

// MayGrant reports whether a node in this state may grant acquires.
func (s State) MayGrant() bool { return s == Up || s == Connecting }

// IsConnected reports whether a node in this state has a connection that is in use.
func (s State) IsConnected() bool { return s == Up || s == Failing }

// State returns the state.
func (l *Link) State() State { return State(l.state.Load()) }

// Status returns the state, until when a quarantine lasts at most, and why the node is down,
// quarantined or failing. It says down of a node that has no vote of its own.
func (l *Link) Status() (s State, until time.Time, why error) {
	shared := l.cfg.Peers.Shared(l.cfg.Index)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s = l.State(); {
	case s.Rejects() || s == Failing:
		why = l.err
	case s == Up && shared != nil:
		s, why = Down, shared
	}
	var q *guard.Quarantine
	if errors.As(l.err, &q) {
		until = q.Until
	}
	return s, until, why
}

// Rejects returns whether the node is down or quarantined, and why.
func (l *Link) Rejects() (why error, rejects bool) {
	if !l.State().Rejects() {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err, l.State().Rejects() // it may have come up meanwhile
}

// AwaitConnected returns nil when the node is connected, at once or after the connect that is under
// way. Otherwise it returns why the node is down, or the cause of ctx's end.
func (l *Link) AwaitConnected(ctx context.Context) error {
	for !l.State().IsConnected() {
		l.mu.Lock()
		done := l.connectDone
		l.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if why, rejects := l.Rejects(); rejects {
			return why
		}
	}
	return nil
}

// SetState changes the state and logs it. Only the connector may call it, which includes
// Owner.Work: the owner changes the state between Up and Failing.
func (l *Link) SetState(s State, err error) {
	l.mu.Lock()
	before := l.State()
	l.state.Store(int32(s))
	l.err = err
	unlogged := l.causes.isNew(s, err)
	switch {
	case s == Connecting:
		l.connectDone = make(chan struct{})
	case before == Connecting:
		close(l.connectDone)
	}
	l.mu.Unlock()
	l.cfg.Owner.StateChanged(before, s)
	log := l.cfg.Logger.With(slog.String("node", l.Name()))
	if l.masters != nil {
		log = log.With(slog.String("master", l.master)) // which the connector alone changes
	}
	switch {
	case s == Up:
		log.Info("lockpipe: node is up")
	case !unlogged || errors.Is(err, ErrClosed):
	case s == Connecting:
		if err != nil {
			log = log.With(slog.Any("error", err))
		}
		log.Warn("lockpipe: connection to node lost")
	case s == Failing:
		log.Warn("lockpipe: node is failing", slog.Any("error", err))
	case s == Quarantined:
		log.Warn("lockpipe: node is quarantined", slog.Any("error", err))
	default:
		log.Warn("lockpipe: node is down", slog.Any("error", err))
	}
}
