package check

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// endpointOf reads a URL that is known to be good.
func endpointOf(t *testing.T, url string) Endpoint {
	t.Helper()
	node, err := ParseEndpoint(url)
	require.NoError(t, err)
	return node
}

// Goal: the scan finds exactly the keys with the prefix, of any number and with any characters, but
// not those that Clients keep on purpose.
func TestScan_FindsThePrefixOnly(t *testing.T) {
	nodes := servertest.Start(t, 1)
	node := endpointOf(t, nodes.URLs()[0])
	args := []string{"MSET"}
	for _, key := range []string{
		"run*:1", "run*:2", "runx:3", "run*", "other", `we[i]r\d?:1`,
		`weird:1`, "run*:lockpipe:admitted",
	} {
		args = append(args, key, "x")
	}
	_, err := nodes.Do(0, args...)
	require.NoError(t, err)
	for prefix, want := range map[string]int{
		"run*:": 2, "run": 5, "none:": 0, `we[i]r\d?:`: 1,
		"run*:lockpipe:": 1, "": 8,
	} {
		n, err := countKeys(t.Context(), node, prefix)
		require.NoError(t, err)
		require.Equal(t, want, n, prefix)
	}
}

// Goal: a key space of many SCAN pages is walked to its end.
func TestScan_WalksAllPages(t *testing.T) {
	nodes := servertest.Start(t, 1)
	args := []string{"MSET"}
	for i := range 5000 {
		args = append(args, "run:"+strconv.Itoa(i), "x")
	}
	_, err := nodes.Do(0, args...)
	require.NoError(t, err)
	n, err := countKeys(t.Context(), endpointOf(t, nodes.URLs()[0]), "run:")
	require.NoError(t, err)
	require.Equal(t, 5000, n)
}

// Goal: only the database of the URL is searched.
func TestScan_SelectsTheDatabase(t *testing.T) {
	nodes := servertest.Start(t, 1)
	_, err := nodes.Do(0, "SET", "run:1", "x")
	require.NoError(t, err)
	node := endpointOf(t, nodes.URLs()[0]+"?db=2")
	n, err := countKeys(t.Context(), node, "run:")
	require.NoError(t, err)
	require.Zero(t, n)
}

// fakeNode answers every connection's commands as a Redis with a password and one matching key
// would, and returns the commands of the first connection when that is closed.
func fakeNode(listener net.Listener) <-chan []string {
	seen := make(chan []string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		var commands []string
		resptest.Serve(conn, func(words []string) string {
			commands = append(commands, strings.Join(words, " "))
			if words[0] != "SCAN" {
				return "+OK\r\n"
			}
			return "*2\r\n" + resptest.Bulk("0") + resptest.Strings("run:1", "run:1")
		})
		seen <- commands
	}()
	return seen
}

// Goal: every kind of URL that a Client takes can be searched: TCP and unix sockets, TLS, with
// user, password and database.
func TestScan_EveryKindOfNode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	for _, tc := range []struct {
		network, address, url string
		commands              []string
		secure                bool
	}{
		{"tcp", "127.0.0.1:0", "redis://:pw@ADDRESS/3", []string{"AUTH pw", "SELECT 3"}, false},
		{"tcp", "127.0.0.1:0", "ADDRESS", nil, false},
		{
			"tcp", "127.0.0.1:0", "rediss://me:pw@ADDRESS?skip_verify=1",
			[]string{"AUTH me pw"},
			true,
		},
		{"unix", socket, "unix://me:pw@ADDRESS?db=1", []string{"AUTH me pw", "SELECT 1"}, false},
	} {
		t.Run(tc.url, func(t *testing.T) {
			listener, err := net.Listen(tc.network, tc.address)
			require.NoError(t, err)
			defer listener.Close()
			url := strings.ReplaceAll(tc.url, "ADDRESS", listener.Addr().String())
			if tc.secure {
				listener = tls.NewListener(listener, certified.TLS)
			}
			seen := fakeNode(listener)
			n, err := countKeys(t.Context(), endpointOf(t, url), "run:")
			require.NoError(t, err)
			require.Equal(t, 1, n, "a key that is returned twice is one key")
			require.Equal(t, append(tc.commands, "SCAN 0 MATCH run:* COUNT 1000"), <-seen)
		})
	}
}

// Goal: a node that can't be searched is an error, and never a node without leftover keys.
func TestScan_ANodeThatCannotBeSearchedIsAnError(t *testing.T) {
	nodes := servertest.Start(t, 2)
	for i := range 2 {
		_, err := nodes.Do(i, "SET", "run:1", "x")
		require.NoError(t, err)
	}
	endpoints := []Endpoint{endpointOf(t, nodes.URLs()[0]), endpointOf(t, nodes.URLs()[1])}
	total, err := LeftoverKeys(t.Context(), endpoints, "run:")
	require.NoError(t, err)
	require.Equal(t, 2, total, "added up over the nodes")

	require.NoError(t, nodes.Kill(0))
	total, err = LeftoverKeys(t.Context(), endpoints, "run:")
	require.ErrorContains(t, err, endpoints[0].Name())
	require.Equal(t, 1, total, "the other node is searched all the same")
}

// Goal: a node that never answers does not delay the scan beyond its context.
func TestScan_EndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = bufio.NewReader(conn).ReadString('\n') // the command is there
		cancel()
		_, _ = conn.Read(make([]byte, 1<<10)) // and is not answered
		<-t.Context().Done()
	}()
	_, err = countKeys(ctx, endpointOf(t, listener.Addr().String()), "run:")
	require.Error(t, err)
}

// Goal: the scan returns for any answer of a server.
func TestScan_OddRepliesAreErrors(t *testing.T) {
	for _, reply := range []string{
		"", "\r\n", "?\r\n", "$x\r\n", "$5\r\nab", "*99999999999\r\n",
		"-ERR no\r\n", "*1\r\n$1\r\n0\r\n", ":1\r\n", "$-1\r\n",
	} {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			_, _ = server.Read(make([]byte, 1<<10))
			_, _ = server.Write([]byte(reply))
		}()
		_, err := newConn(t.Context(), client).scan("run:")
		require.Error(t, err, "%q", reply)
	}
}
