package resp_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// The goal: all replies are taken, also behind an error, and the first error is returned.
func TestConn_TakesAllReplies(t *testing.T) {
	c := resptest.Dial(t, func(words []string) string {
		return resptest.Bulk(strings.Join(words, " "))
	})
	var heard []string
	first := errors.New("first")
	step := func(err error, words ...string) resp.Step {
		return resp.Step{Command: words, OnReply: func(v resp.Value) error {
			heard = append(heard, v.Text)
			return err
		}}
	}
	require.NoError(t, c.Do())
	require.NoError(t, c.Do(step(nil, "A"), resp.Step{Command: []string{"NOTHING"}}))
	err := c.Do(step(nil, "B", "b"), step(first, "C"), step(errors.New("second"), "D"))
	require.Equal(t, first, err)
	require.Equal(t, []string{"A", "B b", "C", "D"}, heard)
}

// The goal: the error says why a connection ended, with the server's words if it said some.
func TestConn_SaysWhyItEnded(t *testing.T) {
	denied := "-DENIED go away. Read this page of advice.\r\n"
	for reply, want := range map[string]string{
		"":                        resp.ErrUnanswered.Error(),
		denied:                    "DENIED go away",
		"-ERR too many\r\n":       "ERR too many: EOF",
		"+OK\r\n":                 "the server has closed the connection, and its log may say why: EOF",
		"HTTP/1.1 400\r\n":        resp.ErrNotRedis.Error(),
		"+OK\r\n+OK\r\n+more\r\n": resp.ErrNotRedis.Error(),
	} {
		client, server := net.Pipe()
		go func() {
			_, _ = server.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(server, reply)
			_ = server.Close()
		}()
		ping := resp.Step{Command: []string{"PING"}}
		require.EqualError(t, resp.NewConn(client).Do(ping, ping), want, "%q", reply)
	}
}
