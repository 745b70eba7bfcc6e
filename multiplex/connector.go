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

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/redis/rueidis"
)

const (
	// The delay between two tries to connect doubles from the first to the second, with a random
	// half, so that many clients do not dial a returning server at the same moment.
	minReconnectDelay = 10 * time.Millisecond
	maxReconnectDelay = 500 * time.Millisecond
	// A connection that lasted for this long is redialled without a delay. So is one that the
	// client gave up because the server lost data.
	stableAfter = time.Second
	// A server that answers releases with errors is sent them again after this time.
	resendDelay = 100 * time.Millisecond
	// The marker of a quarantined node is read again after these times, with a random half: another
	// client may lift the quarantine. While it may be the first use it stays at the first, so that
	// the nodes meet in Guard.Admit, which takes longer.
	minMarkerPoll = 50 * time.Millisecond
	maxMarkerPoll = 2 * time.Second
	// disconnectAckTimeout is how long rueidis may take to report the end of a lost connection,
	// before the next one is made.
	disconnectAckTimeout = 20 * time.Millisecond
)

// errUnstable is why a node is down whose connection was lost just after it was made.
var errUnstable = errors.New("the connection was lost at once")

// errDataLoss is why an answer does not count, or why a connection is dropped.
var errDataLoss = errors.New(
	"the server was flushed, or the connection was made again, before the answer")

// runConnector keeps the node connected until ctx ends. It is the node's connector: the only
// goroutine that may dial.
func (n *node) runConnector(ctx context.Context) {
	if n.sentinels != nil {
		defer n.sentinels.run(ctx)()
	}
	delay, markerPoll := minReconnectDelay, minMarkerPoll
	for {
		err := n.connect(ctx)
		var q *restartguard.Quarantine
		switch {
		case ctx.Err() != nil:
			n.setState(NodeDown, ErrClosed)
			return
		case err == nil:
			n.resend()
			n.acquireErrors.since.Store(0)
			n.setState(NodeUp, nil)
			up := time.Now()
			n.serve(ctx)
			n.guard.ServerLeft()
			n.noteDrop()
			if ctx.Err() != nil {
				continue
			}
			markerPoll = minMarkerPoll
			l := n.active.conn.Load()
			lostData := l.state.Load() == connDead && l.dropCause.Load() == nil
			if time.Since(up) > stableAfter || lostData {
				delay = minReconnectDelay
				n.setState(NodeConnecting, n.connectionErr())
				continue
			}
			n.setState(NodeDown, cmp.Or(n.connectionErr(), errUnstable))
		case errors.As(err, &q):
			n.setState(NodeQuarantined, q)
			n.dropExpired()
			sleepCtx(ctx, min(markerPoll/2+rand.N(markerPoll/2), max(0, time.Until(q.Until))))
			if !n.guard.MayBeFirstUse() {
				markerPoll = min(2*markerPoll, maxMarkerPoll)
			}
			continue
		default:
			n.guard.NodeDown()
			n.setState(NodeDown, err)
			n.dropExpired()
		}
		sleepCtx(ctx, delay/2+rand.N(delay/2))
		delay = min(2*delay, maxReconnectDelay)
	}
}

// sleepCtx returns after d or when ctx ends.
func sleepCtx(ctx context.Context, d time.Duration) {
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

// connect makes a connection that was admitted, and on which votes count. The dial hook makes the
// handshake, while rueidis dials.
func (n *node) connect(ctx context.Context) error {
	n.awaitDisconnectAck(ctx)
	if err := n.logins.refresh(ctx, &n.logins.current); err != nil {
		return err
	}
	for {
		using, leave, err := n.findMaster(ctx)
		if err != nil {
			return err
		}
		select { // an earlier connection does not concern the one to come
		case <-n.disconnected:
		default:
		}
		t := &dialPermit{}
		n.permit = t
		trying, cancel := context.WithTimeout(context.WithValue(using, permitKey{}, t),
			connectTimeout)
		err = n.verifyMarker(trying)
		cancel()
		switched := context.Cause(using)
		leave(nil)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && switched != nil: // another server is the master now
			sleepCtx(ctx, minReconnectDelay)
			continue
		case errors.Is(err, context.DeadlineExceeded): // not ctx
			return fmt.Errorf("not connected within %v", dialTimeout)
		case t.used || ctx.Err() != nil:
			return n.hide(err)
		}
		// The lost connection answered: rueidis had not put it away yet.
		sleepCtx(ctx, time.Millisecond)
	}
}

// findMaster finds out which server to dial. The context that it returns ends when that is not the
// master any more.
func (n *node) findMaster(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	if n.sentinels == nil {
		using, leave := context.WithCancelCause(ctx)
		return using, leave, nil
	}
	master, err := n.sentinels.findMaster(ctx)
	if err != nil {
		return nil, nil, n.hide(err)
	}
	n.dialer.endpoint = n.endpoint.withAddress(master)
	using, leave := n.sentinels.startUsing(ctx, master)
	return using, leave, nil
}

// leaveDeposed drops the connection if it leads to another server than the master. It takes the
// connection before it asks who is the master, so no newer connection is dropped for an older
// answer. If the connector opens one to the old master after that, its connect was ended before:
// see sentinels.takeReport.
func (n *node) leaveDeposed() {
	l := n.active.conn.Load()
	if master := n.sentinels.newestMaster(); l != nil && master != "" && l.address != master {
		l.drop(&switchedError{l.address, master})
	}
}

// expectDisconnectAck notes that rueidis will report the end of the connection, by the same call
// that reports a flush.
func (n *node) expectDisconnectAck() {
	select {
	case <-n.disconnectAck:
	default:
	}
	n.ackExpected = true
}

// awaitDisconnectAck waits for that call. Without it the next connection would be taken for
// flushed. A server that knows only RESP2 causes none.
func (n *node) awaitDisconnectAck(ctx context.Context) {
	if !n.ackExpected {
		return
	}
	n.ackExpected = false
	late := time.NewTimer(disconnectAckTimeout)
	defer late.Stop()
	select {
	case <-n.disconnectAck:
	case <-late.C:
	case <-ctx.Done():
	}
}

// verifyMarker makes rueidis dial, and lets votes count on the connection if the marker is still
// there: between the handshake and rueidis' first command a flush goes unnoticed. From then on the
// server reports a flush.
func (n *node) verifyMarker(ctx context.Context) error {
	commands := []rueidis.Completed{n.client.B().Ping().Build()}
	if marker := n.guard.Marker(); marker != "" {
		commands = append(commands, n.client.B().Get().Key(marker).Build())
	}
	replies := n.client.DoMulti(ctx, commands...)
	if err := replies[0].NonRedisError(); err != nil {
		return err
	}
	l := n.active.conn.Load()
	if l.server.RunID != "" {
		n.expectDisconnectAck()
		if text, err := replies[1].ToString(); err != nil || text != l.server.RunID {
			_ = l.Close()
			return errors.Join(errDataLoss, replies[1].NonRedisError())
		}
	}
	if err := n.checkDistinct(ctx, l); err != nil {
		_ = l.Close()
		return err
	}
	l.movedAt = n.guard.ToldApart(l, l.movedAt)
	if err := n.proveUsable(ctx); err != nil {
		l.drop(err)
		return err
	}
	l.state.CompareAndSwap(connUnverified, connVerified)
	if !l.verified() || l.isClosed.Load() {
		return errDataLoss
	}
	return nil
}

// noteDrop notes that the connection was dropped, if it was. A server that was a replica may have
// another one's keys now.
func (n *node) noteDrop() {
	refusal := n.active.conn.Load().dropCause.Load()
	if refusal == nil {
		return
	}
	n.mustProve = true
	if strings.Contains((*refusal).Error(), "READONLY") {
		n.guard.ServerIsReplica()
	}
}

// connectionErr returns why the connection was lost: what the server did against the protocol, or
// the error that it answered. It is nil if neither is the reason.
func (n *node) connectionErr() error {
	if err := n.permit.protocolErr.Load(); err != nil {
		return *err
	}
	if err := n.active.conn.Load().dropCause.Load(); err != nil {
		return *err
	}
	return nil
}

// repeatedArguments is how a server begins to repeat the arguments of a command that it does not
// know: AUTH with a long password, as far as there is space.
const repeatedArguments = ", with args beginning with"

// withoutPassword hides the password if a server repeats what it did not understand. A quarantine
// is in the client's own words, and stays one.
func withoutPassword(err error, password string) error {
	var own *restartguard.Quarantine
	if errors.As(err, &own) {
		return err
	}
	text := err.Error()
	shown, _, _ := strings.Cut(text, repeatedArguments)
	if password != "" {
		shown = strings.ReplaceAll(shown, password, "...")
	}
	if shown == text {
		return err
	}
	return errors.New(shown)
}

// duties are the times at which the connector has something to do while a connection lasts. A zero
// time is never.
type duties struct {
	resend time.Time // the releases that the server answered with errors
	renew  time.Time // the generation
	review time.Time // a node that refuses acquires
}

// untilNext returns the time until the first duty; 0 if it is due.
func (d *duties) untilNext(now time.Time) time.Duration {
	var next time.Duration = math.MaxInt64
	for _, at := range [...]time.Time{d.resend, d.renew, d.review} {
		if !at.IsZero() {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

// serve returns when the connection is lost or ctx ends, and does the duties meanwhile. One timer
// is enough for all of them. It is set just before the connector waits, so it never fires while the
// connector is busy.
func (n *node) serve(ctx context.Context) {
	now := time.Now()
	// A connection may end before it is time to renew, again and again. So the time counts from the
	// last renewal on any connection.
	d := duties{
		resend: now.Add(resendDelay), renew: n.renewal.last.Add(untilRenewal()),
		review: now.Add(probeEvery),
	}
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		pause := d.untilNext(time.Now())
		if pause == 0 {
			n.doDuty(ctx, &d)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-n.pendingAdded:
			if d.resend.IsZero() {
				d.resend = time.Now().Add(resendDelay)
			}
		case <-n.renewSoon:
			d.renew = time.Now()
		case <-n.acquireErrors.recheck:
			d.review = time.Now()
		case <-n.disconnected:
			return
		case <-ctx.Done():
			return
		}
	}
}

// doDuty does one duty that is due.
func (n *node) doDuty(ctx context.Context, d *duties) {
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
