package resp

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// CheckedConn is a connection on which every reply is checked before the reader has it. It is for
// clients that trust what they read, as rueidis does: a reply that no command asked for or a
// negative length ends the process there, in a goroutine that nobody else can recover, and any
// other length is allocated before its bytes come. With a CheckedConn the server loses its
// connection instead: nothing reaches the client that would make it more than an ordinary reply.
//
// After the first protocol error every Read fails. One goroutine may read and one may write at a
// time.
type CheckedConn struct {
	net.Conn
	written CommandCounter // the writer's
	// Whole commands, counted before their last byte is on its way, so that no reply can come
	// first.
	sent            atomic.Int64
	read            replyChecker // the reader's
	protocolErr     error        // the reader's
	onProtocolError func(error)
}

// NewCheckedConn returns conn with its replies checked. It calls onProtocolError once, in the
// goroutine that reads, before Read returns that error.
func NewCheckedConn(conn net.Conn, onProtocolError func(error)) *CheckedConn {
	c := &CheckedConn{Conn: conn, onProtocolError: onProtocolError}
	c.read.sent = &c.sent
	return c
}

// ProtocolError is the error of bytes that no Redis server sends in reply to what it was asked.
type ProtocolError string

// Error returns what is wrong with the bytes.
func (e ProtocolError) Error() string { return string(e) }

// errCommand is the error of bytes that the writer may not send, because they can't be counted.
var errCommand = errors.New("a command that is not an array of strings")

// Write counts the commands in p and sends it. It sends nothing if p is not a part of arrays of
// strings.
func (c *CheckedConn) Write(p []byte) (int, error) {
	ended, ok := c.written.Count(p)
	if !ok {
		return 0, errCommand
	}
	if ended > 0 {
		c.sent.Add(ended)
	}
	n, err := c.Conn.Write(p)
	return n, maskContextErr(err)
}

// maskContextErr hides an error of a context: some connections that users dial end with one, and it
// must not look like that of a dial, before which nothing was sent.
func maskContextErr(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

// Read returns what came up to the first byte that is against the protocol.
func (c *CheckedConn) Read(p []byte) (int, error) {
	if c.protocolErr != nil {
		return 0, c.protocolErr
	}
	n, err := c.Conn.Read(p)
	good, protocolErr := c.read.check(p[:n])
	if protocolErr == nil {
		return n, maskContextErr(err)
	}
	c.protocolErr = protocolErr
	c.onProtocolError(protocolErr)
	return good, protocolErr
}
