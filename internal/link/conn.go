package link

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/keepalive"
	"github.com/lockpipe/lockpipe/internal/trip"
)

// Conn is one connection to a node. Votes count only if it was verified from before they were asked
// for until their answers are looked at: by then the server may have told of a flush.
//
//	unverified --> verified          the connector has found the guard's key again, with tracking
//	unverified, verified --> dead    the server was flushed, or is no master
//
// A closed connection may be verified: what was answered before counts.
type Conn struct {
	net.Conn
	// Trips is what rueidis has as the connection. All three are set before anybody else has it.
	Trips   *trip.Conn
	Address string // of the server
	Server  guard.Server
	// ReadBehind is what is sent behind all else, and Server.Memory its reply: the server does not
	// tell of changes. Set before the connection is verified, and read only when it is; else nil.
	ReadBehind []byte

	// A CommandSet. Set before anybody else has the connection; later bits are only cleared.
	commands atomic.Uint32
	// keepAlive ends with the connection. Set before anybody else has it; nil in a handshake.
	keepAlive *keepalive.KeepAlive
	onClose   func()
	isClosed  atomic.Bool  // Close was called
	state     atomic.Int32 // connUnverified, connVerified or connDead
	// dropCause is why the connection was dropped, if it was: an error that the server answered, or
	// ErrSilent.
	dropCause atomic.Pointer[error]
}

const (
	connUnverified int32 = iota
	connVerified
	connDead
)

// Close drops what was not sent yet: a command that was given up must not reach the server later,
// behind the release that takes it back on the next connection. It also leaves out the closing
// message of TLS, which can block for seconds while every caller waits. rueidis closes a connection
// that broke before it reports that.
func (c *Conn) Close() error {
	again := c.isClosed.Swap(true)
	c.keepAlive.Stop()
	err := endpoint.Abort(c.Conn)
	if !again {
		c.onClose()
	}
	return err
}

// giveUp closes a connection on which nothing comes. What was answered before counts.
func (c *Conn) giveUp() {
	c.dropCause.CompareAndSwap(nil, &ErrSilent)
	_ = c.Trips.Close()
}

// ErrSilent is why a connection failed that was given up because nothing came.
var ErrSilent = fmt.Errorf("no answer to a PING within %v, or to a command within %v",
	ProbeTimeout, keepalive.MaxStuck*SilenceGap)

// Failure returns why the connection was dropped, or has failed. It is nil before that, and if the
// client itself closed it for another reason.
func (c *Conn) Failure() error {
	err := c.Trips.Cause()
	if errors.Is(err, net.ErrClosed) { // which is what Close causes
		err = nil
	}
	return cmp.Or(c.DropCause(), err)
}

// IsClosed reports whether Close was called.
func (c *Conn) IsClosed() bool { return c.isClosed.Load() }

// Verified reports whether an answer counts that is asked for on the connection now. c may be nil.
func (c *Conn) Verified() bool { return c != nil && c.state.Load() == connVerified }

// Drop gives the connection up for an error that the server answered. The connector dials again.
// Votes that come later do not count: by then the server may be a master again, with another one's
// keys.
func (c *Conn) Drop(refusal error) {
	c.dropCause.CompareAndSwap(nil, &refusal)
	c.Abandon()
}

// DropCause returns the error for which the connection was dropped; nil if it was not. c may be
// nil.
func (c *Conn) DropCause() error {
	if c == nil {
		return nil
	}
	if cause := c.dropCause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Abandon gives the connection up, because the server has forgotten something or may do so unseen.
// Votes on it count no longer.
func (c *Conn) Abandon() {
	c.state.Store(connDead)
	_ = c.Close()
}
