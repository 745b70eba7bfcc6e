// Package resptest is for tests of code that uses RESP: servers that a test makes up, and streams
// of replies.
package resptest

import (
	"io"
	"net"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// commandLimits are above every command that a client of a made-up server sends.
var commandLimits = resp.Limits{Line: 4 << 10, Bytes: 16 << 20, Items: 1 << 16, Depth: 1}

// NewReader returns a reader of commands.
func NewReader(r io.Reader) *resp.Reader { return resp.NewReader(r, commandLimits) }

// ReadCommand reads one command and returns its words, of which there is at least one.
func ReadCommand(r *resp.Reader) ([]string, error) {
	command, err := r.Read()
	if err != nil {
		return nil, err
	}
	if len(command.Items) == 0 {
		return nil, resp.ErrNotRedis
	}
	words := make([]string, len(command.Items))
	for i, item := range command.Items {
		words[i] = item.Text
	}
	return words, nil
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

// Bulk returns the reply that is this text.
func Bulk(text string) string { return string(resp.AppendBulk(nil, text)) }

// Strings returns the reply that is an array of these texts.
func Strings(texts ...string) string { return string(resp.AppendCommand(nil, texts...)) }
