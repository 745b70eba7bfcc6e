package multiplex

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// line is one connection to a node. Votes count only while it is valid, from before they were asked
// for until they were answered.
//
//	fresh --> valid     the keeper has found the marker again, through rueidis
//	fresh, valid --> void     the server told that it was flushed, or that it is no master
//
// A closed line may be valid: what was answered before counts.
type nodeConn struct {
	net.Conn
	server    restartguard.Server // Set before anybody else has the line
	address   string              // of the server. Set before anybody else has the line
	onClose   func()
	closeOnce sync.Once
	// changed is when the node got this server, if it may have been another's before. Set before
	// the line is valid, and read only when it is.
	movedAt  time.Time
	isClosed atomic.Bool  // it was closed
	state    atomic.Int32 // fresh, valid or void
	// refusal is why the line was dropped, if it was: an error that the server answered.
	dropCause atomic.Pointer[error]
	// deletion is what the handshake found, until the server declines it.
	deletion atomic.Int32
}

const (
	connUnverified int32 = iota
	connVerified
	connDead
)

// Close drops what was not sent yet: a command that was given up must not reach the server later,
// behind the release that takes it back on the next connection. It also leaves out the farewell of
// TLS, which can block for seconds while every caller waits. rueidis closes a connection that broke
// before it tells anybody else.
func (l *nodeConn) Close() error {
	l.isClosed.Store(true)
	err := abort(l.Conn)
	l.closeOnce.Do(l.onClose)
	return err
}

// abort closes a connection without what was not sent yet, and without the farewell of TLS.
func abort(conn net.Conn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

// counts reports whether an answer counts that was asked for on the line when it was valid.
func (l *nodeConn) verified() bool { return l != nil && l.state.Load() == connVerified }

// deletes is how what goes over the line is released.
func (l *nodeConn) deleteCommand() deleteCommand {
	if l == nil {
		return viaScript
	}
	return deleteCommand(l.deletion.Load())
}

// mayRepeat reports whether the server may have seen, as another node, what was sent at this time:
// see servers.
func (l *nodeConn) mayRepeat(sent time.Time) bool {
	return l != nil && !l.movedAt.IsZero() && !sent.After(l.movedAt)
}

// current is the node's newest line. What is sent while the keeper makes a new one may go over that
// one already.
type activeConn struct{ conn atomic.Pointer[nodeConn] }

// sending returns the line to compare with in counted.
func (c *activeConn) verified() *nodeConn {
	if l := c.conn.Load(); l.verified() {
		return l
	}
	return nil
}

// counted reports whether an answer counts: nothing has happened to the line since sending.
func (c *activeConn) stillValid(sent *nodeConn) bool { return sent.verified() && c.conn.Load() == sent }

// flushed voids the line, because the server told that it was flushed. It reports false where that
// was only the end of a line.
func (c *activeConn) onDataLoss() bool {
	l := c.conn.Load()
	if l == nil || l.isClosed.Load() {
		return false
	}
	if l.server.RunID != "" {
		l.abandon()
	}
	return true
}

// void gives the line up, because the server has forgotten something or may do so unseen. Votes on
// it count no longer.
func (l *nodeConn) abandon() {
	l.state.Store(connDead)
	_ = l.Close()
}
