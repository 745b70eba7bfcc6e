package restartguard

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
)

// run is a run_id.
func run(digit string) string { return strings.Repeat(digit, 39) + "0" }

// fakeServer is a server in memory, as far as the guard knows one.
type fakeServer struct {
	mu                  sync.Mutex // guards all below
	runID, replID       string
	durable, replica    bool
	marker, generations string
	expiresIn           time.Duration
	// instead replies to a command in place of the server; "" leaves that to the server. It may be
	// nil. mu is not held.
	instead func(command []string) (reply string)
	heard   []string // the commands, but for those that only read
}

// newFakeServer returns a young master with this run_id.
func newFakeServer(runID string) *fakeServer { return &fakeServer{runID: runID, replID: "1"} }

// dial returns a connection to the server, which ends with the test.
func (s *fakeServer) dial(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	go resptest.Serve(server, s.reply)
	return client
}

func (s *fakeServer) reply(command []string) string {
	if s.instead != nil {
		if text := s.instead(command); text != "" {
			return text
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch command[0] {
	case "INFO":
		return resptest.Bulk(s.info(command[1]))
	case "CONFIG":
		return resptest.Strings("appendfsync", "always", "no-appendfsync-on-rewrite", "no")
	case "GET":
		text := map[string]string{"marker": s.marker, "generations": s.generations}[command[1]]
		if text == "" {
			return "$-1\r\n"
		}
		return resptest.Bulk(text)
	case "PTTL":
		return fmt.Sprintf(":%d\r\n", s.expiresIn.Milliseconds())
	case "EVALSHA":
		s.heard = append(s.heard, strings.Join(command, " "))
		return s.admit(command)
	}
	s.heard = append(s.heard, strings.Join(command, " "))
	return ":7\r\n"
}

func (s *fakeServer) info(section string) string {
	aof, role := "0", "master"
	if s.durable {
		aof = "1"
	}
	if s.replica {
		role = "slave"
	}
	return map[string]string{
		"server": "run_id:" + s.runID + "\r\nuptime_in_seconds:100\r\n",
		"persistence": "aof_enabled:" + aof + "\r\naof_rewrite_in_progress:0\r\n" +
			"aof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n",
		"replication": "role:" + role + "\r\nmaster_replid:" + s.replID +
			"\r\nmaster_replid2:0000\r\n",
	}[section]
}

// admit is script.WriteMarker. mu is held.
func (s *fakeServer) admit(command []string) string {
	if command[1] != script.WriteMarker.SHA || len(command) != 9 {
		return "-ERR unknown script\r\n"
	}
	seen, marker, expiry, generations := command[5], command[6], command[7], command[8]
	switch {
	case s.marker == marker:
	case s.marker != seen:
		return ":0\r\n"
	}
	s.marker, s.expiresIn = marker, -time.Millisecond
	if expiry != "" {
		var ms int64
		_, _ = fmt.Sscan(expiry, &ms)
		s.expiresIn = time.Duration(ms) * time.Millisecond
	}
	if generations != "" {
		s.generations = generations
	}
	return ":1\r\n"
}
