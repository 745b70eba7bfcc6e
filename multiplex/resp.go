package multiplex

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The limits of one reply in the handshake. INFO has a few kilobytes, CONFIG GET a few items, and
// SENTINEL MASTER some fifty: a server that sends more fails
// its node, and costs the process nothing.
const (
	maxReplyLine  = 4 << 10
	maxReplyBulk  = 64 << 10
	maxReplyItems = 128
)

// reply is one reply of the handshake, in RESP2.
type reply struct {
	kind  byte   // + - : $ or *
	text  string // of all but an array
	null  bool
	items []reply // of an array
}

// failure is the error that the server replied with, or nil.
func (r reply) failure() error {
	if r.kind != '-' {
		return nil
	}
	return errors.New(r.text)
}

// value is a string that is there.
func (r reply) value() (text string, ok bool) {
	return r.text, !r.null && (r.kind == '$' || r.kind == '+')
}

// appendCommand appends one command as clients send it.
func appendCommand(b []byte, args []string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(a)), 10), "\r\n"...)
		b = append(append(b, a...), "\r\n"...)
	}
	return b
}

// newReplyReader returns a reader for readReply.
func newReplyReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxReplyLine) }

// readReply reads one reply, and not a byte more than the server sends. Arrays have no arrays in
// them: no reply of the handshake has.
func readReply(r *bufio.Reader) (reply, error) {
	head, err := readSimple(r)
	if err != nil || head.kind != '*' || head.null {
		return head, err
	}
	count, err := readLength(head.text, maxReplyItems)
	if err != nil {
		return reply{}, err
	}
	head.text = ""
	room := maxReplyBulk // of all items together
	for range count {
		item, err := readSimple(r)
		if err != nil {
			return reply{}, err
		}
		if item.kind == '*' {
			return reply{}, errors.New("the server replied with an array inside an array")
		}
		if room -= len(item.text); room < 0 {
			return reply{}, fmt.Errorf("the server replied with more than %d bytes", maxReplyBulk)
		}
		head.items = append(head.items, item)
	}
	return head, nil
}

// readSimple reads a reply that is no array, or the head of an array.
func readSimple(r *bufio.Reader) (reply, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return reply{}, fmt.Errorf("the server replied with a line of more than %d bytes",
			maxReplyLine)
	case err != nil:
		return reply{}, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return reply{}, errNotRedis
	}
	head := reply{kind: line[0], text: string(line[1 : len(line)-2])}
	switch head.kind {
	case '+', '-':
		return head, nil
	case ':':
		_, err := strconv.ParseInt(head.text, 10, 64)
		if err != nil {
			return reply{}, errNotRedis
		}
		return head, nil
	case '$', '*':
		if head.text == "-1" {
			return reply{kind: head.kind, null: true}, nil
		}
		if head.kind == '*' {
			return head, nil
		}
		return readBulk(r, head.text)
	}
	return reply{}, errNotRedis
}

// errNotRedis: what came is no reply in RESP2.
var errNotRedis = errors.New("the server does not reply as a Redis server does")

func readBulk(r *bufio.Reader, length string) (reply, error) {
	n, err := readLength(length, maxReplyBulk)
	if err != nil {
		return reply{}, err
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return reply{}, err
	}
	if string(body[n:]) != "\r\n" {
		return reply{}, errNotRedis
	}
	return reply{kind: '$', text: string(body[:n])}, nil
}

// readLength reads a length that the server announces: digits alone.
func readLength(text string, most int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil:
		return 0, errNotRedis
	case n > uint64(most):
		return 0,
			fmt.Errorf("the server replied with %d bytes or items where at most %d make sense", n,
				most)
	}
	return int(n), nil
}
