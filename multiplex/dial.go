package multiplex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"
)

// dialer opens the connections of one node. A node has two: one is owned by the connector, and one
// by the inspection under way.
//
// Config.Dial runs on a goroutine of its own, because nothing ends a call that ignores its context.
// The owner leaves such a call, and makes no other until that has returned. So a dialer has one
// such
// goroutine at most. It ends when the call returns, and closes a connection that comes too late.
type dialer struct {
	endpoint *endpoint
	dial     DialFunc // nil for a net.Dialer
	logger   *slog.Logger

	left   *dialing // the last call that was left; nil before
	logged bool     // the stack of a panic; by the connector alone
}

// dialing is one call of Config.Dial.
type dialing struct {
	ended    time.Time     // when its context ended; set by the owner
	result   chan dialed   // without a buffer: the owner takes the result, or has left
	left     chan struct{} // closed when the owner has left
	returned chan struct{} // closed when the call has returned and its result was taken or closed
}

// dialed is what became of a call.
type dialed struct {
	conn  net.Conn
	err   error
	stack []byte // of a panic
}

// errNothing is the error of a call that returned neither of its results.
var errNothing = errors.New("Config.Dial returned neither a connection nor an error")

// open makes a connection within dialTimeout.
func (d *dialer) open(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if d.dial == nil {
		return d.endpoint.dial(ctx, (&net.Dialer{}).DialContext)
	}
	if d.left != nil {
		select {
		case <-d.left.returned:
		default:
			return nil, d.hangs()
		}
	}
	c := &dialing{
		result: make(chan dialed), left: make(chan struct{}), returned: make(chan struct{}),
	}
	go c.run(ctx, d.endpoint, d.dial)
	select {
	case r := <-c.result:
		return d.take(r)
	case <-ctx.Done():
		c.ended = time.Now()
	}
	late := time.NewTimer(dialGrace)
	defer late.Stop()
	select {
	case r := <-c.result:
		return d.take(r)
	case <-late.C:
		close(c.left)
		d.left = c
		return nil, d.hangs()
	}
}

// take takes the result of a call in time.
func (d *dialer) take(r dialed) (net.Conn, error) {
	if r.stack != nil && !d.logged {
		d.logged = true
		d.logger.Error("lockpipe: Config.Dial panicked", slog.String("node", d.endpoint.address),
			slog.Any("error", r.err), slog.String("stack", string(r.stack)))
	}
	return r.conn, r.err
}

// hangs is the error while a call that was left has not returned.
func (d *dialer) hangs() error {
	what := "Config.Dial"
	if d.endpoint.option.TLSConfig != nil {
		what = "Config.Dial, or TLS on its connection,"
	}
	return fmt.Errorf("%s has not returned, although its context ended at %s",
		what, d.left.ended.Format(time.RFC3339))
}

// run makes the call, whatever that does.
func (c *dialing) run(ctx context.Context, e *endpoint, dial DialFunc) {
	defer close(c.returned)
	r := dialed{err: errors.New("Config.Dial ended its goroutine")}
	defer func() {
		if p := recover(); p != nil {
			r = dialed{err: fmt.Errorf("Config.Dial panicked: %v", p), stack: debug.Stack()}
		}
		select {
		case c.result <- r:
		case <-c.left:
			if r.err == nil {
				_ = r.conn.Close()
			}
		}
	}()
	conn, err := e.dial(ctx, dial)
	r = dialed{conn: conn, err: err}
}
