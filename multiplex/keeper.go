package multiplex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	// The pause between two tries to connect doubles from the first to the second, with a random
	// half, so that many clients do not dial a returning server at the same moment.
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// A connection that lasted for this long is redialled without a pause; also one that was given
	// up here, for a flush.
	steady = time.Second
	// A server that answers releases with errors is asked again after this.
	resendPause = 100 * time.Millisecond
	// A quarantined node is looked at again after these, with a random half: another client may
	// lift the quarantine. While it may be the first use it stays at the first, so that the nodes
	// meet in firstUse.join, which takes longer.
	firstLook = 50 * time.Millisecond
	lastLook  = 2 * time.Second
	// So long a lost connection may take to tell that it is over, before the next one is made.
	farewellPatience = 20 * time.Millisecond
)

// errUnsteady is why a node is down whose connection was lost just after it was made.
var errUnsteady = errors.New("the connection was lost at once")

// errDataLoss is why an answer does not count, or why a connection is dropped.
var errDataLoss = errors.New(
	"the server was flushed, or the connection was made again, before the answer")

// connecting keeps the node connected until ctx ends. It is the node's keeper: the only goroutine
// that may dial.
func (n *node) connecting(ctx context.Context) {
	if n.sentinels != nil {
		defer n.sentinels.run(ctx)()
	}
	pause, look := firstPause, firstLook
	for {
		err := n.connect(ctx)
		var q *quarantine
		switch {
		case ctx.Err() != nil:
			n.become(NodeDown, ErrClosed)
			return
		case err == nil:
			n.resend()
			n.refusals.since.Store(0)
			n.become(NodeUp, nil)
			up := time.Now()
			n.serve(ctx)
			n.admission.left()
			n.distrust()
			if ctx.Err() != nil {
				continue
			}
			look = firstLook
			l := n.active.line.Load()
			flushed := l.state.Load() == void && l.refusal.Load() == nil
			if time.Since(up) > steady || flushed {
				pause = firstPause
				n.become(NodeConnecting, n.fault())
				continue
			}
			n.become(NodeDown, cmp.Or(n.fault(), errUnsteady))
		case errors.As(err, &q):
			n.become(NodeQuarantined, q)
			n.discard()
			rest(ctx, min(look/2+rand.N(look/2), max(0, time.Until(q.until))))
			if !n.mux.first.possible() {
				look = min(2*look, lastLook)
			}
			continue
		default:
			n.mux.servers.leave(n.index)
			n.mux.first.down(n.index)
			n.become(NodeDown, err)
			n.discard()
		}
		rest(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, lastPause)
	}
}

// rest returns after d or when ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// connect makes a connection that was admitted, and on which votes count. The handshake is made by
// the gate, while rueidis dials.
func (n *node) connect(ctx context.Context) error {
	n.parted(ctx)
	if err := n.logins.renew(ctx, &n.logins.current); err != nil {
		return err
	}
	n.logins.current.Load().apply(n.admission.option)
	for {
		using, leave, err := n.find(ctx)
		if err != nil {
			return err
		}
		select { // whatever was lost before does not concern the connection to come
		case <-n.lost:
		default:
		}
		t := &ticket{}
		n.ticket = t
		trying, cancel := context.WithTimeout(context.WithValue(using, ticketKey{}, t),
			connectTimeout)
		err = n.confirm(trying)
		cancel()
		switched := context.Cause(using)
		leave(nil)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && switched != nil: // another server is the master now
			rest(ctx, firstPause)
			continue
		case errors.Is(err, context.DeadlineExceeded): // of a context that is none of the caller's
			return fmt.Errorf("not connected within %v", dialTimeout)
		case t.used || ctx.Err() != nil:
			return n.hide(err)
		}
		// The connection that was lost answered instead: rueidis had not put it away yet.
		rest(ctx, time.Millisecond)
	}
}

// find finds out which server is to be dialled. The context ends when that is not the master any
// more.
func (n *node) find(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	if n.sentinels == nil {
		using, leave := context.WithCancelCause(ctx)
		return using, leave, nil
	}
	master, err := n.sentinels.master(ctx)
	if err != nil {
		return nil, nil, n.hide(err)
	}
	n.dialer.endpoint = n.endpoint.at(master)
	using, leave := n.sentinels.use(ctx, master)
	return using, leave, nil
}

// leaveDeposed drops the line if it leads to another server than the master. It takes the line
// before it asks who is the master, so no newer line is dropped for an older answer. If the keeper
// opens a line to the old master after that, its connect was ended before: see sentinels.hear.
func (n *node) leaveDeposed() {
	l := n.active.line.Load()
	if master := n.sentinels.named(); l != nil && master != "" && l.address != master {
		l.drop(&switchedError{l.address, master})
	}
}

// awaitsFarewell notes that rueidis will tell the end of the line by the same call that stands for
// a flush.
func (n *node) awaitsFarewell() {
	select {
	case <-n.farewell:
	default:
	}
	n.owed = true
}

// parted waits for that call, or the next line would be taken for flushed. A server that knows only
// RESP2 makes none.
func (n *node) parted(ctx context.Context) {
	if !n.owed {
		return
	}
	n.owed = false
	late := time.NewTimer(farewellPatience)
	defer late.Stop()
	select {
	case <-n.farewell:
	case <-late.C:
	case <-ctx.Done():
	}
}

// confirm makes rueidis dial, and lets votes count on the connection, if the marker is still there:
// between the handshake and rueidis' first command a flush goes unnoticed. From then on the server
// tells of it.
func (n *node) confirm(ctx context.Context) error {
	commands := []rueidis.Completed{n.client.B().Ping().Build()}
	if marker := n.admission.marker; marker != "" {
		commands = append(commands, n.client.B().Get().Key(marker).Build())
	}
	replies := n.client.DoMulti(ctx, commands...)
	if err := replies[0].NonRedisError(); err != nil {
		return err
	}
	l := n.active.line.Load()
	if l.runID != "" {
		n.awaitsFarewell()
		if text, err := replies[1].ToString(); err != nil || text != l.runID {
			_ = l.Close()
			return errors.Join(errDataLoss, replies[1].NonRedisError())
		}
	}
	if err := n.tellApart(ctx, l); err != nil {
		_ = l.Close()
		return err
	}
	l.changed = n.mux.servers.apart(l)
	if err := n.prove(ctx); err != nil {
		l.drop(err)
		return err
	}
	l.state.CompareAndSwap(fresh, valid)
	if !l.counts() || l.over.Load() {
		return errDataLoss
	}
	return nil
}

// distrust notes that the line was dropped, if it was. A server that was a replica may have another
// one's keys now.
func (n *node) distrust() {
	refusal := n.active.line.Load().refusal.Load()
	if refusal == nil {
		return
	}
	n.suspect = true
	if strings.Contains((*refusal).Error(), "READONLY") {
		n.admission.demoted()
	}
}

// fault is what the server did against the protocol, or the error that it answered, when its
// connection was lost for that, else nil.
func (n *node) fault() error {
	if err := n.ticket.fault.Load(); err != nil {
		return *err
	}
	if err := n.active.line.Load().refusal.Load(); err != nil {
		return *err
	}
	return nil
}

// arguments is how a server begins to repeat those of a command that it does not know, AUTH with a
// long password as far as it has room.
const arguments = ", with args beginning with"

// withoutPassword hides the password where a server repeats what it did not understand. A
// quarantine is in our own words, and stays one.
func withoutPassword(err error, password string) error {
	var own *quarantine
	if errors.As(err, &own) {
		return err
	}
	text := err.Error()
	shown, _, _ := strings.Cut(text, arguments)
	if password != "" {
		shown = strings.ReplaceAll(shown, password, "...")
	}
	if shown == text {
		return err
	}
	return errors.New(shown)
}

// duties are when the connector does what it does while a connection lasts. A zero time is never.
type duties struct {
	resend time.Time // what the server answered with errors
	renew  time.Time // the generation
	review time.Time // a node that refuses acquires
}

// next returns the time until the first duty; 0 if it is due.
func (d *duties) next(now time.Time) time.Duration {
	var next time.Duration = math.MaxInt64
	for _, at := range [...]time.Time{d.resend, d.renew, d.review} {
		if !at.IsZero() {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

// serve returns when the connection is lost or ctx ends, and does the duties meanwhile. One timer
// serves all of them. It is set just before the connector waits, so it never fires while the
// connector is busy.
func (n *node) serve(ctx context.Context) {
	now := time.Now()
	// A connection may end before it is time to renew, again and again. So that counts from the
	// last renewal on any connection.
	d := duties{
		resend: now.Add(resendPause), renew: n.admission.renewed.Add(untilRenewal()),
		review: now.Add(probeEvery),
	}
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		pause := d.next(time.Now())
		if pause == 0 {
			n.do(ctx, &d)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-n.kept:
			if d.resend.IsZero() {
				d.resend = time.Now().Add(resendPause)
			}
		case <-n.mux.generations.renewal[n.index]:
			d.renew = time.Now()
		case <-n.refusals.asks:
			d.review = time.Now()
		case <-n.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

// do does one duty that is due.
func (n *node) do(ctx context.Context, d *duties) {
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(time.Now()) }
	switch {
	case due(d.resend):
		d.resend = time.Time{}
		n.resend()
	case due(d.renew):
		n.renew(ctx)
		d.renew = time.Now().Add(untilRenewal())
	case due(d.review):
		d.review = time.Time{}
		if again := n.review(ctx); again > 0 {
			d.review = time.Now().Add(again)
		}
	}
}
