package multiplex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

const (
	// The pause between two tries to connect doubles from the first to the second, with a random half, so that many
	// clients do not dial a returning server at the same moment.
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// A connection that lasted for this long is redialled without a pause.
	steady = time.Second
	// A server that answers releases with errors is asked again after this.
	resendPause = 100 * time.Millisecond
)

// errUnsteady is why a node is down whose connection was lost just after it was made.
var errUnsteady = errors.New("the connection was lost at once")

// connecting keeps the node connected until ctx ends. It is the node's keeper: the only goroutine that may dial.
func (n *node) connecting(ctx context.Context) {
	pause := firstPause
	for {
		err := n.connect(ctx)
		switch {
		case ctx.Err() != nil:
			n.become(NodeDown, ErrClosed)
			return
		case err == nil:
			n.resend()
			n.become(NodeUp, nil)
			up := time.Now()
			n.serve(ctx)
			if ctx.Err() != nil {
				continue
			}
			if time.Since(up) > steady {
				pause = firstPause
				n.become(NodeConnecting, n.fault())
				continue
			}
			n.become(NodeDown, cmp.Or(n.fault(), errUnsteady))
		default:
			n.become(NodeDown, err)
			n.discard()
		}
		rest(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, lastPause)
	}
}

// rest returns after d or when ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// connect makes a connection, loads the scripts and lets the server tell of watched keys, if it can. A server that answers
// at all is connected, also if with an error, such as LOADING: its votes say so.
func (n *node) connect(ctx context.Context) error {
	for {
		select { // whatever was lost before does not concern the connection to come
		case <-n.lost:
		default:
		}
		t := &ticket{}
		n.ticket = t
		trying, cancel := context.WithTimeout(context.WithValue(ctx, ticketKey{}, t), dialTimeout)
		commands := []rueidis.Completed{n.client.B().Ping().Build()}
		for _, s := range script.All() {
			commands = append(commands, n.client.B().ScriptLoad().Script(s.Source).Build())
		}
		commands = append(commands, n.tracking())
		err := n.client.DoMulti(trying, commands...)[0].NonRedisError()
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded): // of a context that is none of the caller's
			return fmt.Errorf("not connected within %v", dialTimeout)
		case t.used || ctx.Err() != nil:
			return withoutPassword(err, n.password)
		}
		// The connection that was lost answered instead: rueidis had not put it away yet.
		rest(ctx, time.Millisecond)
	}
}

// fault is what the server did against the protocol when its connection was lost for that, else nil.
func (n *node) fault() error {
	if err := n.ticket.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// withoutPassword hides the password where a server repeats the command that it did not understand.
func withoutPassword(err error, password string) error {
	if password == "" || !strings.Contains(err.Error(), password) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), password, "..."))
}

// serve returns when the connection is lost or ctx ends, and meanwhile sends again what the server answered with errors.
func (n *node) serve(ctx context.Context) {
	pause := time.NewTimer(resendPause)
	defer pause.Stop()
	armed := true
	for {
		select {
		case <-n.kept:
			if !armed {
				pause.Reset(resendPause)
				armed = true
			}
		case <-pause.C:
			armed = false
			n.resend()
		case <-n.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}
