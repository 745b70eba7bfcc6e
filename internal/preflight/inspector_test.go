package preflight

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// server is one that a test controls.
type server struct {
	runID string

	mu    sync.Mutex // guards all below
	asked map[string]bool
	dials int
	open  int
	most  int // of open
}

// dial is for Config.
func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	client, conn := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	s.open++
	s.most = max(s.most, s.open)
	go func() {
		resptest.Serve(conn, s.reply)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}()
	return client, nil
}

func (s *server) reply(words []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]bool)
	}
	s.asked[strings.Join(words, " ")] = true
	switch words[0] {
	case "INFO":
		return resptest.Bulk("redis_version:7.2.5\r\nrole:master\r\nrun_id:" + s.runID + "\r\n")
	case "TIME":
		return resptest.Strings("1000000000", "0")
	case "PTTL":
		return ":1500\r\n"
	case "GET":
		return resptest.Bulk("of " + words[1])
	}
	return resptest.Strings()
}

// inspectServer inspects a node that leads to this server. voter is as in node.votes.
func inspectServer(t *testing.T, s *server, voter func() (string, string)) Facts {
	t.Helper()
	e, err := endpoint.Parse("node", nil, 0)
	require.NoError(t, err)
	all := New(Config{Endpoints: []*endpoint.Endpoint{e}, Dial: s.dial, Prefix: "app:"})
	if voter != nil {
		all.nodes[0].votes = voter
	}
	defer all.Close(t.Context())
	facts, err := all.Ask(t.Context())
	require.NoError(t, err)
	require.NoError(t, facts[0].Err)
	synctest.Wait()
	require.Zero(t, s.open, "a connection is left")
	return facts[0]
}

// The goal: these commands, which write nothing, are all that a server gets, over two connections.
func TestInspector_OnlyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{runID: "a"}
		f := inspectServer(t, s, nil)
		require.Equal(t, &Admission{"of app:" + ids.AdmittedKey, 1500 * time.Millisecond},
			f.Admission)
		require.Equal(t, map[string]bool{
			"INFO": true, "CONFIG GET *appendfsync*": true,
			"CONFIG GET repl-backlog-ttl": true,
			"CONFIG GET cluster-*":        true,
			"CLIENT TRACKING OFF":         true, "CLIENT CACHING NO": true, "TIME": true,
			"GET app:lockpipe:admitted": true, "PTTL app:lockpipe:admitted": true,
			"HGETALL app:lockpipe:layouts": true,
		}, s.asked)
		require.Equal(t, 2, s.dials)
		require.Equal(t, 2, s.most)
	})
}

// The goal: what a client knows decides which server is compared with, and how long that takes. The
// voter at another address is that of a former master.
func TestInspector_ComparesWithTheVoter(t *testing.T) {
	for name, tc := range map[string]struct {
		address, runID string
		dials          int
		takes          time.Duration
		want           OtherServer
	}{
		"the same":       {"node:6379", "a", 2, SampleSpan, OtherServer{}},
		"another":        {"node:6379", "b", 1, voterTimeout, OtherServer{"b", true}},
		"elsewhere":      {"former:6379", "b", 2, SampleSpan, OtherServer{}},
		"none":           {"", "", 2, SampleSpan, OtherServer{}},
		"without a name": {"node:6379", "", 2, SampleSpan, OtherServer{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, began := &server{runID: "a"}, time.Now()
			f := inspectServer(t, s, func() (string, string) { return tc.address, tc.runID })
			require.Equal(t, tc.want, f.Other, name)
			require.Equal(t, tc.dials, s.dials, name)
			require.Equal(t, tc.takes, time.Since(began), name)
		})
	}
}

// The goal: a server without a run_id is compared with none.
func TestInspector_ComparesNothingWithoutARunID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		f := inspectServer(t, s, func() (string, string) { return "node:6379", "b" })
		require.Zero(t, f.Other)
		require.Equal(t, 1, s.dials)
	})
}
