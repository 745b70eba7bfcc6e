package multiplex

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// checkedConn stands between a server and rueidis, which trusts what it reads: a reply that no
// command asked for and a negative length end the process, in a goroutine that nobody else can
// recover, and other lengths are allocated before anything came. Here a server that sends such a
// thing loses its connection instead. What it sends is followed value by value, and nothing reaches
// rueidis that would make it more than an ordinary reply.
//
// After the first fault every Read fails. One goroutine may read and one may write at a time.
type checkedConn struct {
	net.Conn
	written commands // the writer's
	// Whole commands, counted before their last byte is on its way, so that no reply can come
	// first.
	sent   atomic.Int64
	read   replies     // the reader's
	fault  error       // the reader's
	ticket *dialPermit // is told of the fault
}

func newCheckedConn(conn net.Conn, t *dialPermit) *checkedConn {
	c := &checkedConn{Conn: conn, ticket: t}
	c.read.sent = &c.sent
	return c
}

// errCommand is the error of what can't be followed on its way out. rueidis sends nothing of the
// kind.
var errCommand = errors.New("a command that is not an array of strings")

// Write counts the commands in p and sends it.
func (c *checkedConn) Write(p []byte) (int, error) {
	ended, ok := c.written.count(p)
	if !ok {
		return 0, errCommand
	}
	if ended > 0 {
		c.sent.Add(ended)
	}
	n, err := c.Conn.Write(p)
	return n, ofConn(err)
}

// ofConn hides an error of a context: some connections that users dial end with one, and it must
// not look like that of a dial, before which nothing was sent. See failed.
func ofConn(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

// Read returns what came up to the first byte that is at fault.
func (c *checkedConn) Read(p []byte) (int, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	n, err := c.Conn.Read(p)
	good, fault := c.read.check(p[:n])
	if fault == nil {
		return n, ofConn(err)
	}
	c.fault = fault
	c.ticket.protocolErr.Store(&c.fault)
	return good, fault
}

// commands follows the framing of what is written: arrays of strings.
type commands struct {
	strings int  // that the command under way still lacks
	skip    int  // bytes of the string under way, and the end of its line
	header  byte // the type of the header under way; 0 for none
	length  int  // in that header, as far as it came
}

// maxLength is beyond what is ever sent.
const maxLength = 1 << 30

// count returns how many commands end in p. It runs for each string of each flush.
func (c *commands) count(p []byte) (ended int64, ok bool) {
	for i := 0; i < len(p); {
		if c.skip > 0 {
			n := min(c.skip, len(p)-i)
			i += n
			if c.skip -= n; c.skip == 0 {
				if c.strings--; c.strings == 0 {
					ended++
				}
			}
			continue
		}
		if c.header == 0 {
			if c.header = '*'; c.strings > 0 {
				c.header = '$'
			}
			if p[i] != c.header {
				return ended, false
			}
			c.length = 0
			i++
		}
		length := c.length
		for i < len(p) && p[i]-'0' <= 9 && length <= maxLength {
			length = length*10 + int(p[i]-'0')
			i++
		}
		c.length = length
		if i < len(p) && p[i] == '\r' {
			i++
		}
		if i < len(p) {
			if p[i] != '\n' || !c.headerEnd() {
				return ended, false
			}
			i++
		}
	}
	return ended, true
}

// headerEnd takes the header under way, unless it makes no sense.
func (c *commands) headerEnd() bool {
	if c.header == '*' {
		c.strings = c.length
	} else {
		c.skip = c.length + 2
	}
	c.header = 0
	return c.strings > 0 && c.length <= maxLength
}

// number is a decimal that comes digit by digit.
type number struct {
	value    uint64
	digits   int
	negative bool
}

// add takes the next byte. false: it is no part of an int64.
func (n *number) add(b byte) bool {
	switch {
	case b >= '0' && b <= '9' && n.digits < 19: // which a uint64 has room for
		n.value = n.value*10 + uint64(b-'0')
		n.digits++
		return true
	case b == '-' && n.digits == 0 && !n.negative:
		n.negative = true
		return true
	}
	return false
}

// int64 is the number, if it is one.
func (n *number) int64() (int64, bool) {
	switch {
	case n.digits == 0:
		return 0, false
	case n.negative:
		return -int64(n.value), n.value <= 1<<63 // the least one is its own negative
	}
	return int64(n.value), n.value < 1<<63
}
