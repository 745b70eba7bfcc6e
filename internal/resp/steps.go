package resp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// connLimits bound one reply on a Conn. INFO has a few kilobytes, CONFIG GET a few items,
// SENTINEL MASTER some fifty, and script.Layouts 127 with up to 96,000 bytes. A server that sends
// more fails, and costs the process nothing.
var connLimits = Limits{Line: 4 << 10, Bytes: 192 << 10, Items: 128, Depth: 1}

// ErrUnanswered is the error of a connection that ended before any reply: the server, or what is in
// front of it, has hung up.
var ErrUnanswered = errors.New("the connection was closed before any answer")

// Conn asks a server on a connection that nothing else uses yet. A Client sends one command after
// the other, and a Conn sends all of a list at once. It speaks RESP2, which every server knows, and
// reads exactly the replies to what it asked. It is for one goroutine.
type Conn struct {
	net.Conn
	in *Reader
}

// NewConn returns a Conn on a connection.
func NewConn(conn net.Conn) *Conn { return &Conn{conn, NewReader(conn, connLimits)} }

// Step is one command, and what its reply means.
type Step struct {
	Command []string
	OnReply func(Value) error // an error is why the server is of no use; nil takes any reply
}

// Do writes the commands of all steps at once and takes the replies. It returns the first error of
// a step if all replies came, ErrUnanswered if the connection ended before any reply, and
// ErrNotRedis if the server sent something else or more. After an error the connection is closed or
// to be closed.
func (c *Conn) Do(steps ...Step) error {
	if len(steps) == 0 {
		return nil
	}
	var request []byte
	for _, s := range steps {
		request = AppendCommand(request, s.Command...)
	}
	written := make(chan struct{})
	var unwritten error
	go func() {
		// While the replies are read: a connection without a buffer takes the rest only when the
		// first replies were read.
		defer close(written)
		_, unwritten = c.Write(request)
	}()
	var first Value
	var refused error
	for i, s := range steps {
		v, err := c.in.Read()
		if err != nil {
			_ = c.Close()
			<-written
			return broken(i == 0, first, err)
		}
		if i == 0 {
			first = v
		}
		if s.OnReply != nil { // also behind an error, which a later reply may explain
			refused = cmp.Or(refused, s.OnReply(v))
		}
	}
	if <-written; unwritten != nil {
		return unwritten
	}
	if c.in.Buffered() > 0 {
		return ErrNotRedis
	}
	return refused
}

// broken returns why a connection ended. A server that turns clients away says why in its first
// reply, and closes.
func broken(unanswered bool, first Value, err error) error {
	switch {
	case strings.HasPrefix(first.Text, "DENIED ") && first.Kind == '-': // a page of advice follows
		sentence, _, _ := strings.Cut(first.Text, ". ")
		return errors.New(sentence)
	case first.Kind == '-':
		return fmt.Errorf("%s: %w", first.Text, err)
	case unanswered && HungUp(err):
		return ErrUnanswered // by either error: which of them is chance
	}
	return err
}

// HungUp reports whether an error says that the other side has ended the connection.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// Pairs returns the names and values that take turns in an array, as CONFIG GET has them.
func Pairs(items []Value) map[string]string {
	all := make(map[string]string)
	for i := 0; i+1 < len(items); i += 2 {
		all[items[i].Text] = items[i+1].Text
	}
	return all
}

// rejections are the first words of errors that a server gives before it executes anything of a
// command. All of them depend on a state of the server that does not change while a script runs, so
// a script that meets one has written nothing.
var rejections = map[string]bool{
	"READONLY": true, "OOM": true, "MISCONF": true, "NOREPLICAS": true, "MASTERDOWN": true,
	"BUSY": true, "LOADING": true, "NOAUTH": true, "NOPERM": true, "NOSCRIPT": true,
	"CLUSTERDOWN": true, "MOVED": true, "TRYAGAIN": true,
}

// Rejected reports whether an error with this first word says that the server has executed nothing
// of the command.
func Rejected(code string) bool { return rejections[code] }
