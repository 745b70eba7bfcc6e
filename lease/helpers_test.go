package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	usualTTL = 10 * time.Second
	never    = 0 // for maxHold: no automatic extension
)

var (
	errNodes = errors.New("no quorum")
	errHangs = errors.New("confirmed when the gate is opened")
)

// The ends of a lease that was extended automatically, if no extension failed.
var (
	errMaxHold    = fmt.Errorf("%w: it was held for maxHold", ErrExpired)
	errUnextended = fmt.Errorf("%w: it was not extended in time", ErrLost)
)

// why returns an end without the lease and the time.
func why(end error) error {
	if ended := (*EndError)(nil); errors.As(end, &ended) {
		return ended.End
	}
	return end
}

// masters replaces everything behind the manager: it answers extensions as the test wants.
type masters struct {
	mu     sync.Mutex
	tries  []try // in order
	sizes  []int // of the batches
	ended  []string
	held   []time.Duration          // how long each was, that is over
	down   bool                     // Ready says no
	answer func(e *Extension) error // nil: confirmed
	gate   chan struct{}            // closed to let what hangs go on
	busy   int                      // batches under way
	most   int                      // the greatest number of them
}

type try struct {
	at  time.Time
	ttl time.Duration
	who any
	ask Extension
}

// manager returns a manager in front of masters that confirm everything.
func manager(t *testing.T, change ...func(*Config)) (*Manager, *masters) {
	t.Helper()
	s := &masters{gate: make(chan struct{}), answer: func(*Extension) error { return nil }}
	cfg := Config{
		Clock:           NewClock(nil),
		Extend:          s.extend,
		QuorumReachable: func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.down },
		OnEnd: func(owner any, end error, held time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.held = append(s.held, held)
			if errors.Is(end, ErrLost) || errors.Is(end, ErrExpired) {
				s.ended = append(s.ended, fmt.Sprint(owner, ": ", why(end)))
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	m := NewManager(cfg)
	t.Cleanup(func() { m.Close() })
	return m, s
}

func (s *masters) extend(_ context.Context, due []Extension) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(due))
	s.busy++
	s.most = max(s.most, s.busy)
	s.mu.Unlock()
	var hanging sync.WaitGroup
	for i := range due {
		e := &due[i]
		s.mu.Lock()
		s.tries = append(s.tries, try{time.Now(), e.TTL, e.Owner, *e})
		answer := s.answer
		s.mu.Unlock()
		if e.Err = answer(e); e.Err == errHangs {
			e.Err = nil
			hanging.Go(func() {
				<-s.gate
				_ = e.Finish()
			})
			continue
		}
		_ = e.Finish()
	}
	hanging.Wait()
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
}

// set changes how the masters answer.
func (s *masters) set(answer func(e *Extension) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *masters) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// reported returns the ends by expiry or loss that OnEnd was called with so far.
func (s *masters) reported() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.ended...)
}

// tried returns the tries so far.
func (s *masters) tried() []try {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]try{}, s.tries...)
}

func fail(*Extension) error { return errNodes }

// hold begins a term.
func hold(t *testing.T, m *Manager, owner any, ttl, maxHold time.Duration) *Term {
	t.Helper()
	term := new(Term)
	require.NoError(t, m.Hold(term, owner, Grant{Sent: m.clock.Now(), TTL: ttl, MaxHold: maxHold}))
	return term
}

// extend lets a term end ttl from now, by hand, with a confirmation at once.
func extend(t *testing.T, term *Term, ttl time.Duration) error {
	t.Helper()
	e, err := term.BeginExtension(t.Context(), ttl)
	if err != nil {
		return err
	}
	return e.Finish()
}

// untilTime returns the end of validity by the monotonic clock; the zero time if the term is over.
func untilTime(t *Term) time.Time {
	if until := t.Until(); until != 0 {
		return t.manager.clock.Time(until)
	}
	return time.Time{}
}

// pass lets time pass, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// waiting is how many leases are due and not under way.
func (m *Manager) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready.Len()
}

// handOff hands the term off, and reports whether it could.
func handOff(t *Term) bool {
	_, ok := t.HandOff()
	return ok
}
