package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits bound one reply.
type Limits struct {
	Line  int // bytes of a line
	Bytes int // bytes of all texts together
	Items int // values of all arrays together
	Depth int // levels of arrays; 0 allows no array
}

// ErrNotRedis is the error of bytes that are no reply in RESP2.
var ErrNotRedis = errors.New("the server does not reply as a Redis server does")

// Reader reads replies in RESP2. It is for one goroutine.
type Reader struct {
	in     *bufio.Reader
	limits Limits
	left   Limits // of the reply that is being read; only Bytes and Items count
}

// NewReader returns a Reader of replies within the limits.
func NewReader(r io.Reader, limits Limits) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, limits.Line), limits: limits}
}

// Buffered returns how many bytes the server has sent behind the last reply, as far as they came.
func (r *Reader) Buffered() int { return r.in.Buffered() }

// Read reads one reply. It returns ErrNotRedis for bytes that are none, another error for a reply
// beyond the limits, and the connection's error if the reply is not complete. An error that the
// server replied with is a Value.
func (r *Reader) Read() (Value, error) {
	r.left = r.limits
	return r.read(r.limits.Depth)
}

// read reads a value that may have this many levels of arrays.
func (r *Reader) read(levels int) (Value, error) {
	v, err := r.readSimple()
	if err != nil || v.Kind != '*' || v.Null {
		return v, err
	}
	if levels == 0 {
		return Value{}, fmt.Errorf("the server replied with more than %d levels of arrays",
			r.limits.Depth)
	}
	count, err := parseLength(v.Text, r.left.Items)
	if err != nil {
		return Value{}, err
	}
	v.Text = ""
	r.left.Items -= count
	for range count {
		item, err := r.read(levels - 1)
		if err != nil {
			return Value{}, err
		}
		v.Items = append(v.Items, item)
	}
	return v, nil
}

// readSimple reads a value that is no array, or the head of an array.
func (r *Reader) readSimple() (Value, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return Value{}, fmt.Errorf("the server replied with a line of more than %d bytes",
			r.limits.Line)
	case err != nil:
		return Value{}, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return Value{}, ErrNotRedis
	}
	v := Value{Kind: line[0], Text: string(line[1 : len(line)-2])}
	switch v.Kind {
	case '+', '-':
		return v, r.spend(len(v.Text))
	case ':':
		if _, err := strconv.ParseInt(v.Text, 10, 64); err != nil {
			return Value{}, ErrNotRedis
		}
		return v, r.spend(len(v.Text))
	case '$', '*':
		if v.Text == "-1" {
			return Value{Kind: v.Kind, Null: true}, nil
		}
		if v.Kind == '*' {
			return v, nil
		}
		return r.readBulk(v.Text)
	}
	return Value{}, ErrNotRedis
}

func (r *Reader) readBulk(length string) (Value, error) {
	n, err := parseLength(length, r.left.Bytes)
	if err != nil {
		return Value{}, err
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(r.in, body); err != nil {
		return Value{}, err
	}
	if string(body[n:]) != "\r\n" {
		return Value{}, ErrNotRedis
	}
	return Value{Kind: '$', Text: string(body[:n])}, r.spend(n)
}

// spend takes n bytes of what the reply may still have.
func (r *Reader) spend(n int) error {
	if r.left.Bytes -= n; r.left.Bytes < 0 {
		return fmt.Errorf("the server replied with more than %d bytes", r.limits.Bytes)
	}
	return nil
}

// parseLength parses a length that the server announces: digits alone.
func parseLength(text string, most int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil:
		return 0, ErrNotRedis
	case n > uint64(most):
		return 0,
			fmt.Errorf("the server replied with %d bytes or items where at most %d make sense", n,
				most)
	}
	return int(n), nil
}
