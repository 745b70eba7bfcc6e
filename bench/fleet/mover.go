package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Stage is which nodes a Client uses while a fleet moves from one layout to another.
type Stage int

const (
	// Old is the present layout alone.
	Old Stage = iota
	// Both needs both layouts.
	Both
	// New is the next layout alone.
	New
)

// client is the part of a lockpipe.Client that a Mover and its callers need.
type client interface {
	Ready(ctx context.Context) error
	Acquire(ctx context.Context, key string, opts ...lockpipe.Option) (*lockpipe.Lease, error)
	Close(ctx context.Context) error
}

// MoveConfig says how a fleet moves.
type MoveConfig struct {
	// Duration is how long all phases take together.
	Duration time.Duration
	// MaxTTL is that of the Clients: no Client uses the next layout alone before so long after the
	// end of the last one that used the old layout alone.
	MaxTTL time.Duration
	// CloseTimeout is how long a Client may take to close.
	CloseTimeout time.Duration
	// SkipBoth leaves out the stage Both, which is wrong: tests see that it is noticed.
	SkipBoth bool
}

// Mover moves a fleet of Clients from one layout to another while callers use them. It replaces the
// Clients one after the other: the new one is ready before callers change to it, and the former is
// closed when all of its calls and leases have ended. So no call fails because of it.
type Mover struct {
	// set once
	cfg   MoveConfig
	make  func(Stage) (client, error) // called by one goroutine
	start time.Time                   // by Start

	stopping chan struct{}  // closed by Stop
	moving   sync.WaitGroup // the goroutine of Start
	draining sync.WaitGroup // of Clients that were replaced

	mu       sync.Mutex // guards all below
	members  []*member  // the present Client of each seat
	all      []client   // all that there have been
	phase    Phase
	records  [phaseCount]record
	replaced int
	errs     []error
}

// member is a Client that callers use.
type member struct {
	client client
	// guarded by Mover.mu
	users   int           // callers with a call or a lease
	retired bool          // no caller enters any more
	idle    chan struct{} // closed when it is retired and has no users
}

// newMover returns a Mover of Clients of the stage Old, one for each seat.
func newMover(cfg MoveConfig, clients []client, makeClient func(Stage) (client, error)) *Mover {
	m := &Mover{cfg: cfg, make: makeClient, stopping: make(chan struct{})}
	for i := range m.records {
		m.records[i] = newRecord()
	}
	for _, c := range clients {
		m.members = append(m.members, newMember(c))
		m.all = append(m.all, c)
	}
	return m
}

func newMember(c client) *member { return &member{client: c, idle: make(chan struct{})} }

// Start begins to move. It ends with ctx, after Duration, or with Stop.
func (m *Mover) Start(ctx context.Context) {
	m.start = time.Now()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Duration)
	m.moving.Go(func() {
		defer cancel()
		m.move(ctx)
	})
}

// Stop ends the move. Call it when no caller calls any more. It returns what went wrong, and an
// error if the fleet has not moved although ctx, that of Start, has not ended.
func (m *Mover) Stop(ctx context.Context) error {
	close(m.stopping)
	m.moving.Wait()
	m.draining.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[m.phase].until = time.Since(m.start)
	if m.phase != NewAlone && ctx.Err() == nil {
		m.errs = append(m.errs, errors.New("the fleet had not moved at the end of the run"))
	}
	return errors.Join(m.errs...)
}

// Clients returns all that there have been, without those of tests.
func (m *Mover) Clients() (list []*lockpipe.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.all {
		if made, ok := c.(*lockpipe.Client); ok {
			list = append(list, made)
		}
	}
	return list
}

// move goes through all phases, until ctx ends or a Client can't be made.
func (m *Mover) move(ctx context.Context) {
	part := m.cfg.Duration / 6
	moved := true
	if !m.cfg.SkipBoth {
		moved = m.roll(ctx, m.start.Add(part), part, Both, RollingToBoth, BothNeeded)
	}
	begin := m.start.Add(3 * part)
	if earliest := time.Now().Add(m.cfg.MaxTTL); begin.Before(earliest) {
		begin = earliest
	}
	if m.cfg.SkipBoth {
		begin = m.start.Add(part)
	}
	if moved {
		m.roll(ctx, begin, part, New, RollingToNew, NewAlone)
	}
}

// roll replaces all Clients by some of a stage, evenly over a time from begin on, and waits for the
// end of the former ones. Meanwhile the phase is during, and then after. It reports false if it
// could not finish.
func (m *Mover) roll(ctx context.Context, begin time.Time, over time.Duration, stage Stage,
	during, after Phase,
) bool {
	for i := range m.members {
		at := begin.Add(over * time.Duration(i) / time.Duration(len(m.members)))
		if !m.sleepUntil(ctx, at) {
			return false
		}
		if i == 0 {
			m.enterPhase(during)
		}
		if err := m.replace(ctx, i, stage); err != nil {
			m.note(ctx, err)
			return false
		}
	}
	m.draining.Wait()
	select {
	case <-m.stopping:
		return false
	default:
	}
	m.enterPhase(after)
	return true
}

// replace gives a seat a new Client, and closes the former in the background when it is idle.
func (m *Mover) replace(ctx context.Context, seat int, stage Stage) error {
	made, err := m.make(stage)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.all = append(m.all, made)
	m.mu.Unlock()
	if err := made.Ready(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	former := m.members[seat]
	m.members[seat] = newMember(made)
	m.replaced++
	former.retired = true
	former.closeIfIdle()
	m.mu.Unlock()
	m.draining.Go(func() {
		select {
		case <-former.idle:
		case <-m.stopping:
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.CloseTimeout)
		defer cancel()
		if err := former.client.Close(closing); err != nil {
			m.note(context.WithoutCancel(ctx), err)
		}
	})
	return nil
}

// closeIfIdle closes idle if nobody uses the Client and nobody will. Mover.mu is held.
func (u *member) closeIfIdle() {
	if u.retired && u.users == 0 {
		close(u.idle)
	}
}

// enter returns the present Client of a seat for a caller, who leaves it.
func (m *Mover) enter(seat int) *member {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.members[seat]
	u.users++
	return u
}

func (m *Mover) leave(u *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.users--
	u.closeIfIdle()
}

// note notes an error, unless it is that ctx has ended.
func (m *Mover) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = append(m.errs, err)
}

// sleepUntil reports false if ctx or the move ended before.
func (m *Mover) sleepUntil(ctx context.Context, at time.Time) bool {
	over, cancel := context.WithDeadline(ctx, at)
	defer cancel()
	select {
	case <-over.Done():
		return ctx.Err() == nil
	case <-m.stopping:
		return false
	}
}
