// Package resptest is for tests of code that uses RESP: servers that a test makes up, and streams
// of replies.
package resptest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// What a command may have: more than any that a client of a made-up server sends.
const (
	maxWords = 1 << 16
	maxWord  = 16 << 20
)

// Reader reads commands.
type Reader struct {
	in   *bufio.Reader
	word []byte // used again
}

// NewReader returns a Reader of what comes from r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReader(r)} }

// Buffered returns how many bytes were read ahead.
func (r *Reader) Buffered() int { return r.in.Buffered() }

// ReadCommand reads one command and returns its words, of which there is at least one.
func ReadCommand(r *Reader) ([]string, error) {
	count, err := r.length('*', maxWords)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, resp.ErrNotRedis
	}
	words := make([]string, count)
	for i := range words {
		if words[i], err = r.readWord(); err != nil {
			return nil, err
		}
	}
	return words, nil
}

func (r *Reader) readWord() (string, error) {
	n, err := r.length('$', maxWord)
	if err != nil {
		return "", err
	}
	r.word = slices.Grow(r.word[:0], n+2)[:n+2]
	if _, err := io.ReadFull(r.in, r.word); err != nil {
		return "", err
	}
	if string(r.word[n:]) != "\r\n" {
		return "", resp.ErrNotRedis
	}
	return string(r.word[:n]), nil
}

// length reads a line that begins with kind, and has a number from 0 to most behind it.
func (r *Reader) length(kind byte, most int) (int, error) {
	line, err := r.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	digits, is := bytes.CutSuffix(line, []byte("\r\n"))
	if !is || len(digits) < 2 || digits[0] != kind {
		return 0, resp.ErrNotRedis
	}
	n, err := strconv.Atoi(string(digits[1:]))
	if err != nil || n < 0 || n > most {
		return 0, resp.ErrNotRedis
	}
	return n, nil
}

// Serve reads commands and writes what reply returns for each: any bytes, or none. It ends with
// the connection, and closes it.
func Serve(conn net.Conn, reply func(words []string) string) {
	defer func() { _ = conn.Close() }()
	r := NewReader(conn)
	for {
		words, err := ReadCommand(r)
		if err != nil {
			return
		}
		text := reply(words)
		if text == "" { // on a net.Pipe a Write of nothing waits as well
			continue
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// Dial returns a connection to a server of this test that replies as the function says.
func Dial(t interface{ Cleanup(func()) }, reply func(words []string) string) *resp.Conn {
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	go Serve(server, reply)
	return resp.NewConn(client)
}

// Bulk returns the reply that is this text.
func Bulk(text string) string { return string(resp.AppendBulk(nil, text)) }

// Strings returns the reply that is an array of these texts.
func Strings(texts ...string) string { return string(resp.AppendCommand(nil, texts...)) }
