package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	// DialTimeout is the default of Endpoint.DialTimeout.
	DialTimeout = 5 * time.Second
	// LoginTimeout bounds a call of a CredentialsFunc.
	LoginTimeout = 3 * time.Second
	// DialGrace is how long one of the user's functions may take to return after its context has
	// ended.
	DialGrace = 100 * time.Millisecond
)

// DialFunc opens a connection to a node, or returns an error. ctx ends after Endpoint.DialTimeout,
// or when the owner is closed. A call that does not return then is abandoned: the node is down, and
// is not dialled again before the call has returned. The connection that it returns is closed.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer opens connections to one server after the other. It has one owner at a time. A DialFunc
// may ignore its context, and a call that hangs blocks its own Dialer alone.
type Dialer struct {
	// Endpoint is the server to dial next.
	Endpoint *Endpoint

	dial  DialFunc // nil for a net.Dialer
	calls userFunc[net.Conn]
	steps *steps // of the last connection
}

// NewDialer returns a Dialer. All its servers have TLS, or none has. dial is nil for a net.Dialer.
// logger logs a panic of dial, once; it is nil if another Dialer of the same function does.
func NewDialer(e *Endpoint, dial DialFunc, logger *slog.Logger) *Dialer {
	calls := userFunc[net.Conn]{
		name: "Config.Dial", mayHang: "Config.Dial", node: e.Name, logger: logger,
		discard: func(conn net.Conn) { _ = conn.Close() },
	}
	if e.TLS != nil {
		calls.mayHang = "Config.Dial, or TLS on its connection,"
	}
	return &Dialer{Endpoint: e, dial: dial, calls: calls}
}

// Open makes a connection within Endpoint.DialTimeout. The owner logs in there next. If that takes
// too long, TimedOut is the error. An error says who has named the server, if others have.
func (d *Dialer) Open(ctx context.Context) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Endpoint.DialTimeout)
	defer cancel()
	e, s := d.Endpoint, new(steps)
	d.steps = s
	if d.dial == nil {
		s.begin("the look-up")
		conn, err = e.dial(ctx, s.netDialer().DialContext, s)
	} else {
		s.begin("Config.Dial")
		conn, err = d.calls.call(ctx, func(ctx context.Context) (net.Conn, error) {
			return e.dial(ctx, d.dial, s)
		})
	}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case err == nil:
		s.begin("the login")
	case late && err == errNoTLS:
		err = fmt.Errorf("%w (%w)", err, d.TimedOut())
	case late && errors.Is(err, context.DeadlineExceeded): // which no caller's context is
		err = fmt.Errorf("%w (%s)", d.TimedOut(), err.Error())
	}
	switch {
	case err == nil:
	case e.Cluster > 0:
		err = fmt.Errorf("the cluster announces %s as the owner of slot %d: %w", e.Address, e.Slot,
			err)
	case e.MasterSet != "":
		err = fmt.Errorf("the sentinels name %s as the master: %w", e.Address, err)
	}
	return conn, err
}

// TimedOut returns the error of a connect that took longer than Endpoint.DialTimeout.
func (d *Dialer) TimedOut() error {
	return fmt.Errorf("not connected within %v: %s", d.Endpoint.DialTimeout, d.steps)
}

// steps says how long each step of a connect took. All methods are safe for concurrent use: a
// DialFunc that was abandoned goes on.
type steps struct {
	mu    sync.Mutex // guards all below; a leaf
	over  string
	step  string // that is under way
	since time.Time
}

// begin notes that the next step begins.
func (s *steps) begin(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if took := now.Sub(s.since).Round(time.Millisecond); took > 0 && s.step != "" {
		s.over += fmt.Sprintf("%s took %v, ", s.step, took)
	}
	s.step, s.since = step, now
}

// netDialer returns a net.Dialer. It tells when the name was looked up.
func (s *steps) netDialer() *net.Dialer {
	connect := func(_ context.Context, _, address string, _ syscall.RawConn) error {
		s.begin("the connect to " + address)
		return nil
	}
	return &net.Dialer{ControlContext: connect}
}

// String returns all steps.
func (s *steps) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%s%s is not over after %v", s.over, s.step,
		time.Since(s.since).Round(time.Millisecond))
}

// errNoTLS is the error if a server takes the beginning of TLS for that of a command. It waits for
// the rest, answers in clear, or hangs up; which one is chance. A server that hangs looks the same.
var errNoTLS = errors.New("the server did not answer the TLS handshake; if it does not use TLS, " +
	"write redis:// in the URL")

// dial opens the connection, with TLS if the endpoint has it.
func (e *Endpoint) dial(ctx context.Context, dial DialFunc, s *steps) (net.Conn, error) {
	conn, err := dial(ctx, e.Network, e.Address)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, errors.New("Config.Dial returned neither a connection nor an error")
	case e.TLS == nil:
		return conn, nil
	}
	s.begin("TLS")
	secure := tls.Client(conn, e.TLS)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		var inClear tls.RecordHeaderError
		if errors.As(err, &inClear) || resp.HungUp(err) ||
			errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, errNoTLS
		}
		return nil, err
	}
	return secure, nil
}

// Abort closes a connection without what was not sent yet, and without the closing message of TLS,
// which can block for seconds.
func Abort(conn net.Conn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}
