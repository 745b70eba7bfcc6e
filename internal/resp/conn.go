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

// ErrNotRedis is the error of bytes that are no reply, or more than any that makes sense.
var ErrNotRedis = errors.New("the server does not reply as a Redis server does")

// ErrUnanswered is the error of a connection that ended before any reply: the server, or what is in
// front of it, has hung up.
var ErrUnanswered = errors.New("the connection was closed before any answer")

// Conn asks a server on a connection that nothing else uses yet. It speaks RESP2, which every
// server knows, and reads exactly the replies to what it asked. It is for one goroutine.
type Conn struct {
	net.Conn
	in Input
}

// NewConn returns a Conn on a connection.
func NewConn(conn net.Conn) *Conn { return NewConnWithin(conn, ReplyLimits) }

// NewConnWithin returns a Conn whose replies have other limits.
func NewConnWithin(conn net.Conn, limits Limits) *Conn { return &Conn{conn, NewInput(limits)} }

// Step is one command, and what its reply means.
type Step struct {
	Command []string
	OnReply func(Value) error // an error is why the server is of no use; nil takes any reply
}

// Do writes the commands of all steps at once and takes the replies. It returns the first error of
// a step if all replies came, ErrUnanswered if the connection ended before any reply, and
// ErrNotRedis if the server sent something else or more. After an error that is not a step's the
// connection is closed or to be closed.
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
		v, err := c.Receive()
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
	if len(c.in.Bytes()) > 0 {
		return ErrNotRedis
	}
	return refused
}

// Receive reads the next reply.
func (c *Conn) Receive() (Value, error) {
	for {
		n, err := c.in.Next(c.in.Bytes())
		switch {
		case err != nil || c.in.Type() == '>':
			return Value{}, ErrNotRedis
		case n > 0:
			v, _ := valueOf(c.in.Bytes())
			c.in.Use(n)
			return v, nil
		}
		if n, err := c.in.Fill(c.Conn); n == 0 && err != nil {
			return Value{}, err
		}
	}
}

// Ask sends one command and returns its reply. An error that the server replies with is an error.
func (c *Conn) Ask(command ...string) (v Value, err error) {
	err = c.Do(Step{command, func(reply Value) error {
		v = reply
		return v.Err()
	}})
	return v, err
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
	case HungUp(err):
		return fmt.Errorf("the server has closed the connection, and its log may say why: %w", err)
	}
	return err
}

// HungUp reports whether an error says that the other side has ended the connection.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, ErrUnanswered)
}
