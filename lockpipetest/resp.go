package lockpipetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// maxBulk is the longest string that Redis sends by default.
const maxBulk = 512 << 20

// maxDepth bounds the nesting of arrays in a reply.
const maxDepth = 32

// replyError is an error reply of the server, as it sent it.
type replyError string

func (e replyError) Error() string { return string(e) }

// talk is a plain RESP2 connection: one request, one reply, and nothing else, so that it can not
// disturb what a test looks at.
type talk struct {
	conn net.Conn
	r    *bufio.Reader
}

// dialTalk connects to addr. The connection works until timeout has passed.
func dialTalk(addr string, timeout time.Duration) (*talk, error) {
	end := time.Now().Add(timeout)
	conn, err := (&net.Dialer{Deadline: end}).Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(end); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &talk{conn: conn, r: bufio.NewReader(conn)}, nil
}

// ask is a talk of one question.
func ask(addr string, timeout time.Duration, args ...string) (any, error) {
	t, err := dialTalk(addr, timeout)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.do(args...)
}

// Nothing was sent that was not answered, or an error has been told already.
func (t *talk) close() { _ = t.conn.Close() }

func (t *talk) do(args ...string) (any, error) {
	if _, err := t.conn.Write(appendRequest(nil, args)); err != nil {
		return nil, err
	}
	reply, err := readReply(t.r, maxDepth)
	if err != nil {
		return nil, err
	}
	if refused, ok := reply.(replyError); ok {
		return nil, refused
	}
	return reply, nil
}

func appendRequest(b []byte, args []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// readReply reads one RESP2 value: a string, an int64, nil, a replyError, or a []any of these. The
// error is that of the connection.
func readReply(r *bufio.Reader, depth int) (any, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return replyError(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	if kind != '$' && kind != '*' {
		return nil, fmt.Errorf("reply of unknown type %q", line)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return nil, err
	case n == -1:
		return nil, nil
	case n < 0 || n > maxBulk || depth == 0:
		return nil, fmt.Errorf("reply of impossible size %q", line)
	case kind == '$':
		return readBulk(r, n)
	}
	return readArray(r, n, depth)
}

func readBulk(r *bufio.Reader, n int) (any, error) {
	buf := make([]byte, n+2)
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	if string(buf[n:]) != "\r\n" {
		return nil, errors.New("reply is longer than announced")
	}
	return string(buf[:n]), nil
}

func readArray(r *bufio.Reader, n, depth int) (any, error) {
	values := make([]any, 0, min(n, 1024))
	for range n {
		v, err := readReply(r, depth-1)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// readLine returns a line of at least its type byte, without the end of line.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("malformed reply %q", line)
	}
	return line[:len(line)-2], nil
}
