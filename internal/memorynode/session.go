package memorynode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Session is one connection as the node sees it. It speaks RESP2, and RESP3 after HELLO 3. Guarded
// by node.mu.
type Session struct {
	node   *Node
	id     int64
	send   func([]byte) // sends to the client, and keeps nothing of its argument; set once
	hangUp func()       // ends the connection; set once

	in       string    // received and not executed: at most one command, which is not complete
	sentAt   time.Time // when the client sent the end of in
	args     []string  // memory for those of the next command
	out      []byte    // the replies being made
	push     []byte    // notifications to send
	resp3    bool
	tracking bool // OPTIN
	caching  bool // the keys of the next command are tracked
	channels map[string]bool
	closed   bool
}

// Node returns the node to which the session belongs.
func (s *Session) Node() *Node { return s.node }

// SentAt returns when the client sent what the session has received last. Only OnTake and
// OnRelease may call it.
func (s *Session) SentAt() time.Time { return s.sentAt }

// Receive executes what the client sent at that time, as far as it is complete, and sends the
// replies. On a frozen node it waits. After bytes that are no command it ends the connection and
// returns an error.
func (s *Session) Receive(data []byte, sentAt time.Time) error {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.frozen && !s.closed {
		n.thawed.Wait()
	}
	n.current, s.sentAt = s, sentAt
	s.in += string(data)
	for !s.closed {
		args, rest, err := cutCommand(s.in, s.args[:0])
		if err != nil {
			n.removeSession(s)
			s.hangUp()
			return err
		}
		if args == nil {
			break
		}
		s.in, s.args = rest, args
		s.execute(args)
		n.sendPushes(s)
	}
	if len(s.out) > 0 {
		s.send(s.out)
		s.out = s.out[:0]
	}
	return nil
}

// errNoCommand is about bytes that are no command in RESP.
var errNoCommand = errors.New("memorynode: a client sent what is no array of strings")

const (
	maxWords  = 1 << 20   // of a command
	maxLength = 512 << 20 // of a word, in bytes
)

// cutCommand cuts the first command from text, and appends its words to args. They are parts of
// text. args is nil if the command is not complete.
func cutCommand(text string, args []string) (words []string, rest string, err error) {
	count, at, err := cutLength(text, 0, '*', maxWords)
	if err != nil || at == 0 {
		return nil, text, err
	}
	if count == 0 {
		return nil, text, errNoCommand
	}
	for range count {
		length, begin, err := cutLength(text, at, '$', maxLength)
		if err != nil || begin == 0 || len(text) < begin+length+2 {
			return nil, text, err
		}
		args = append(args, text[begin:begin+length])
		if at = begin + length + 2; text[at-2:at] != "\r\n" {
			return nil, text, errNoCommand
		}
	}
	return args, text[at:], nil
}

// cutLength reads the line at text[at:]: a kind and a length. It returns where the next line
// begins; 0 if the line is not complete.
func cutLength(text string, at int, kind byte, most int) (length, next int, err error) {
	if at == len(text) {
		return 0, 0, nil
	}
	if text[at] != kind {
		return 0, 0, errNoCommand
	}
	line, _, complete := strings.Cut(text[at+1:min(len(text), at+16)], "\r\n")
	if !complete {
		if len(text)-at >= 16 {
			return 0, 0, errNoCommand
		}
		return 0, 0, nil
	}
	length, err = strconv.Atoi(line)
	if err != nil || length < 0 || length > most {
		return 0, 0, errNoCommand
	}
	return length, at + 1 + len(line) + 2, nil
}

// Execute executes one command that the client has just sent, and returns the reply.
func (s *Session) Execute(args []string) (reply []byte) {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return nil
	}
	n.current, s.sentAt = s, time.Now()
	s.execute(args)
	n.sendPushes(s)
	reply, s.out = s.out, nil
	return reply
}

// Close ends the session when the client has closed the connection.
func (s *Session) Close() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.node.removeSession(s)
}

func (s *Session) status(text string) { s.line('+', text) }
func (s *Session) fail(text string)   { s.line('-', text) }
func (s *Session) text(text string)   { s.out = resp.AppendBulk(s.out, text) }
func (s *Session) number(n int64)     { s.head(':', n) }
func (s *Session) array(n int)        { s.head('*', int64(n)) }

// line makes a line of a kind and a text.
func (s *Session) line(kind byte, text string) {
	s.out = append(append(append(s.out, kind), text...), "\r\n"...)
}

// head makes a line of a kind and a number.
func (s *Session) head(kind byte, n int64) {
	s.out = append(strconv.AppendInt(append(s.out, kind), n, 10), "\r\n"...)
}

func (s *Session) null() {
	if s.resp3 {
		s.out = append(s.out, "_\r\n"...)
	} else {
		s.out = append(s.out, "$-1\r\n"...)
	}
}

// pairs makes a map of texts. The last may be followed by further ones, of which there are more.
func (s *Session) pairs(more int, texts ...string) {
	n := len(texts) + more
	if s.resp3 {
		s.head('%', int64(n/2))
	} else {
		s.array(n)
	}
	for _, text := range texts {
		s.text(text)
	}
}

// double makes a score.
func (s *Session) double(score float64) {
	text := strconv.FormatFloat(score, 'f', -1, 64)
	if s.resp3 {
		s.out = fmt.Appendf(s.out, ",%s\r\n", text)
	} else {
		s.text(text)
	}
}
