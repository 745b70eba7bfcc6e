package link

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// The times of the connector.
const (
	// The delay between two tries to connect doubles from the first to the second, with a random
	// half, so that many clients do not dial a returning server at the same moment.
	MinReconnectDelay = 10 * time.Millisecond
	MaxReconnectDelay = 500 * time.Millisecond
	// StableAfter: a connection that lasted for this long is redialled without a delay. So is one
	// that the client gave up because the server lost data.
	StableAfter = time.Second
	// A quarantined node is looked at again after these times, with a random half: another client
	// may end the quarantine. While it may be the first use it stays at the first, so that the
	// nodes meet in Guard.Admit, which takes longer.
	minGuardPoll = 50 * time.Millisecond
	MaxGuardPoll = 2 * time.Second
)

// errUnstable is why a node is down whose connection was lost just after it was made.
var errUnstable = errors.New("the connection was lost at once")

// ErrDataLoss is why an answer does not count, or why a connection is dropped.
var ErrDataLoss = errors.New(
	"the server was flushed, or the connection was made again, before the answer")

// Run keeps the node connected until ctx ends. It is the connector: the only goroutine that may
// dial. It is called once.
func (l *Link) Run(ctx context.Context) {
	if l.masters != nil {
		defer l.masters.Run(ctx)()
	}
	delay, poll := MinReconnectDelay, minGuardPoll
	for {
		err := l.connect(ctx)
		var q *guard.Quarantine
		switch {
		case ctx.Err() != nil:
			l.SetState(Down, ErrClosed)
			return
		case err == nil:
			l.cfg.Owner.Connected()
			l.SetState(Up, nil)
			up := time.Now()
			l.Serve(ctx)
			if ctx.Err() != nil {
				continue // the client closes: its other nodes need not hear of it
			}
			l.guard.Left()
			poll = minGuardPoll
			c := l.Current()
			lostData := c.state.Load() == connDead && c.DropCause() == nil
			if time.Since(up) > StableAfter || lostData {
				delay = MinReconnectDelay
				l.SetState(Connecting, c.Failure())
				continue
			}
			l.SetState(Down, cmp.Or(c.Failure(), errUnstable))
		case errors.As(err, &q):
			l.guard.Left()
			l.SetState(Quarantined, q)
			l.cfg.Owner.NotConnected()
			pause := poll/2 + rand.N(poll/2)
			if left := time.Until(q.Until); left > 0 {
				pause = min(pause, left)
			}
			guard.Sleep(ctx, pause)
			if !l.cfg.Peers.MayBeFirstUse() {
				poll = min(2*poll, MaxGuardPoll)
			}
			continue
		default:
			l.guard.Left()
			l.SetState(Down, err)
			l.cfg.Owner.NotConnected()
		}
		guard.Sleep(ctx, delay/2+rand.N(delay/2))
		delay = min(2*delay, MaxReconnectDelay)
	}
}

// connect makes a connection that was admitted, and on which votes count. The dial hook makes the
// handshake, while rueidis dials.
func (l *Link) connect(ctx context.Context) error {
	if err := l.logins.Refresh(ctx, endpoint.ForLocks); err != nil {
		return err
	}
	for {
		// using ends when the server must be left. It outlasts ctx: what is owed then is sent.
		using, leave := context.WithCancelCause(context.WithoutCancel(ctx))
		if err := l.findMaster(ctx, leave); err != nil {
			return err
		}
		select { // an earlier connection does not concern the one to come
		case <-l.disconnected:
		default:
		}
		t := &dialPermit{using: using}
		trying, cancel := context.WithTimeout(context.WithValue(ctx, permitKey{}, t),
			l.cfg.Endpoint.DialTimeout)
		stop := context.AfterFunc(using, cancel)
		err := l.verify(trying)
		late := errors.Is(trying.Err(), context.DeadlineExceeded)
		stop()
		cancel()
		switched := context.Cause(using)
		if c := l.Current(); c != nil && (err != nil || !t.used) {
			// No late answer verifies it: what its handshake noted is taken back. If nothing was
			// dialled, using is not of this connection.
			_ = c.Close()
		}
		switch {
		case err == nil && t.used:
			return nil
		case ctx.Err() == nil && switched != nil: // the server is not the master, or unconfirmed
			guard.Sleep(ctx, MinReconnectDelay)
			continue
		case t.dialErr != nil:
			return l.Hide(t.dialErr)
		case late && t.used && (errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, os.ErrDeadlineExceeded)): // the latter is rueidis' own
			return l.dialer.TimedOut()
		case err != nil && (t.used || late || ctx.Err() != nil):
			return l.Hide(err)
		}
		// An earlier connection answered: rueidis had not put it away yet.
		guard.Sleep(ctx, time.Millisecond)
	}
}

// findMaster finds out which server to dial. leave is called when that must be left.
func (l *Link) findMaster(ctx context.Context, leave context.CancelCauseFunc) error {
	if l.masters == nil {
		return nil
	}
	master, err := l.masters.FindMaster(ctx, leave)
	if err != nil {
		return l.Hide(err)
	}
	l.dialer.Endpoint = l.cfg.Endpoint.WithAddress(master)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.master = master
	return nil
}

// verify makes rueidis dial, and lets votes count on the connection if the guard's key and the
// memory are still the same: between the handshake and rueidis' first command a change goes
// unnoticed. From then on the server tells of a flush, and of a change of the key. If it can't, the
// key is read behind all that is sent.
func (l *Link) verify(ctx context.Context) error {
	if err := l.client.Do(ctx, l.client.B().Ping().Build()).NonRedisError(); err != nil {
		return err
	}
	c := l.Current()
	if c.Server.Memory != "" {
		key := l.guardKey() // CLIENT CACHING is for the next command alone
		replies, err := c.Trips.Do(ctx, []string{"CLIENT", "CACHING", "YES"},
			[]string{"GET", key}, []string{"INFO", "replication"}, []string{"HELLO"})
		if err != nil {
			return err
		}
		caching, read, info, hello := replies[0], replies[1], replies[2], replies[3]
		if read.Text != c.Server.Memory || !c.Server.HasMemory(info.Text) {
			_ = c.Close()
			return errors.Join(ErrDataLoss, read.Err(), info.Err())
		}
		if caching.Kind == '-' || hello.Kind != '%' { // no tracking, or only RESP2
			c.ReadBehind = resp.AppendCommand(nil, "GET", key)
		}
	}
	l.guard.Joined()
	c.state.CompareAndSwap(connUnverified, connVerified)
	if !c.Verified() || c.IsClosed() {
		return ErrDataLoss
	}
	return nil
}

// Serve is what Run does while the node is connected: it has the owner work, and renews the
// client's layout entry. It returns when the connection is lost or ctx ends. One timer is enough
// for all. It is set just before the connector waits, so it never fires while the connector is
// busy.
func (l *Link) Serve(ctx context.Context) {
	renewal := time.Now().Add(l.layouts.UntilRenewal()) // the handshake has renewed the entry
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		work := l.cfg.Owner.Work(ctx)
		if ctx.Err() != nil {
			return
		}
		if !renewal.After(time.Now()) {
			l.renewEntry(ctx)
			renewal = time.Now().Add(l.layouts.UntilRenewal())
			continue
		}
		wait := min(work, time.Until(renewal))
		if wait <= 0 { // no timer: see CONTRIBUTING.md, tests of time
			select {
			case <-l.disconnected:
				return
			default:
				continue
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-l.woken:
		case <-l.renewSoon:
			renewal = time.Now()
		case <-l.disconnected:
			return
		case <-ctx.Done():
			return
		}
	}
}
