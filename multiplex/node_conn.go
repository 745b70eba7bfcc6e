package multiplex

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/internal/trip"
)

// nodeConn is one connection to a node. Votes count only if it was verified from before they were
// asked for until they were answered: when the client hears of a flush, replies from behind that
// flush may be in rueidis' buffer already.
//
//	unverified --> verified          the connector has found the marker again, through rueidis
//	unverified, verified --> dead    the server was flushed, or is no master
//
// A closed connection may be verified: what was answered before counts.
type nodeConn struct {
	net.Conn
	server    restartguard.Server // Set before anybody else has the connection
	address   string              // of the server. Set before anybody else has the connection
	trips     *trip.Conn          // that rueidis has. Set before anybody else has the connection
	onClose   func()
	closeOnce sync.Once
	// movedAt is when the node got this server, if the server may have been another node's before.
	// Set before the connection is verified, and read only when it is.
	movedAt  time.Time
	isClosed atomic.Bool  // Close was called
	state    atomic.Int32 // connUnverified, connVerified or connDead
	// dropCause is why the connection was dropped, if it was: an error that the server answered.
	dropCause atomic.Pointer[error]
}

const (
	connUnverified int32 = iota
	connVerified
	connDead
)

// Raw returns the connection that has the same bytes.
func (l *nodeConn) Raw() net.Conn { return l.Conn }

// Close drops what was not sent yet: a command that was given up must not reach the server later,
// behind the release that takes it back on the next connection. It also leaves out the closing
// message of TLS, which can block for seconds while every caller waits. rueidis closes a connection
// that broke before it reports that.
func (l *nodeConn) Close() error {
	l.isClosed.Store(true)
	err := abort(l.Conn)
	l.closeOnce.Do(l.onClose)
	return err
}

// abort closes a connection without what was not sent yet, and without the closing message of TLS.
func abort(conn net.Conn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

// verified reports whether an answer counts that is asked for on the connection now.
func (l *nodeConn) verified() bool { return l != nil && l.state.Load() == connVerified }

// mayRepeat reports whether the server may have seen, as another node, what was sent at this time:
// see restartguard.Server.
func (l *nodeConn) mayRepeat(sent time.Time) bool {
	return l != nil && !l.movedAt.IsZero() && !sent.After(l.movedAt)
}

// activeConn is the node's newest connection. What is sent while the connector makes a new one may
// use the new one already.
type activeConn struct{ conn atomic.Pointer[nodeConn] }

// verified returns the connection if it is verified, for stillValid after the flush; else nil.
func (c *activeConn) verified() *nodeConn {
	if l := c.conn.Load(); l.verified() {
		return l
	}
	return nil
}

// stillValid reports whether an answer counts: nothing has happened to the connection since
// verified returned it.
func (c *activeConn) stillValid(sent *nodeConn) bool {
	return sent.verified() && c.conn.Load() == sent
}

// onDataLoss gives the connection up, because the server reported that it was flushed. It returns
// false if that report was only the end of a connection.
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

// abandon gives the connection up, because the server has forgotten something or may do so unseen.
// Votes on it count no longer.
func (l *nodeConn) abandon() {
	l.state.Store(connDead)
	_ = l.Close()
}
