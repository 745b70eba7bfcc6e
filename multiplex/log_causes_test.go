package multiplex

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// logged returns the lines of the log of ten seconds of a node that is dialled so.
func logged(t *testing.T, url string, dial func(try int) (net.Conn, error)) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log journal
		var tries atomic.Int64
		m := start(t, []string{url}, func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return dial(int(tries.Add(1)))
			}
		})
		time.Sleep(10 * time.Second)
		require.Greater(t, tries.Load(), int64(5))
		lines = strings.Split(strings.TrimSpace(log.String()), "\n")
		closes(t, m)
	})
	return lines
}

// says is a connection to a server that reads something, answers with text, and hangs up.
func says(text string) net.Conn {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		_, _ = server.Read(make([]byte, 1))
		go func() { _, _ = io.Copy(io.Discard, server) }()
		_, _ = io.WriteString(server, text)
	}()
	return client
}

// resets is a connection that is reset by the other side, with a local port of its own.
type resets struct {
	net.Conn
	port int
}

func (r *resets) failure(op string) error {
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.port}
	return &net.OpError{
		Op: op, Net: "tcp", Source: local, Addr: &net.TCPAddr{
			IP:   net.IPv4(127, 0, 0, 1),
			Port: 6379,
		},
		Err: os.NewSyscallError(op, syscall.ECONNRESET),
	}
}

func (r *resets) Read([]byte) (int, error)  { return 0, r.failure("read") }
func (r *resets) Write([]byte) (int, error) { return 0, r.failure("write") }

// reset returns such a connection.
func reset(port int) net.Conn {
	client, server := net.Pipe()
	_ = server.Close()
	return &resets{client, port}
}

// The goal: a server without TLS that gets TLS is one line of the log, whatever its reaction.
func TestLogCauses_AServerWithoutTLSIsLoggedOnce(t *testing.T) {
	lines := logged(t, "rediss://node", func(try int) (net.Conn, error) {
		switch try % 4 {
		case 0:
			return says("-ERR unknown command\r\n"), nil
		case 1:
			return says(""), nil
		case 2:
			return reset(30000 + try), nil
		}
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "the server did not answer the TLS handshake; if it does not")
}

// The goal: a server in protected mode is one line of the log, with the first sentence of its text.
func TestLogCauses_ProtectedModeIsLoggedOnce(t *testing.T) {
	const denied = "DENIED Redis is running in protected mode because no password is set"
	lines := logged(t, "node", func(try int) (net.Conn, error) {
		conn := says("-" + denied + ". In this mode connections are only accepted from the " +
			"loopback.\r\n")
		if try%2 == 0 {
			return conn, nil
		}
		return &breaking{Conn: conn, then: (&resets{port: 30000 + try}).failure("read")}, nil
	})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `error="`+denied+`"`)
}

// breaking is a connection with another error at its end.
type breaking struct {
	net.Conn
	then error
}

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err != nil {
		err = b.then
	}
	return n, err
}

// The goal: errors that differ in a local port or a time are one line. Two causes that alternate
// are one line each.
func TestLogCauses_EachIsLoggedOnce(t *testing.T) {
	lines := logged(t, "node", func(try int) (net.Conn, error) {
		if try%2 == 0 {
			return nil, errors.New("certificate has expired: " +
				time.Now().Format(time.RFC3339Nano) + " is too late")
		}
		return nil, (&resets{port: 30000 + try}).failure("dial")
	})
	require.Len(t, lines, 2)
}
