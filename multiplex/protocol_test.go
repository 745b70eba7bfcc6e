package multiplex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// actor is a server in memory that grants everything and keeps nothing, and says something else
// where the test lets it.
type actor struct {
	mu sync.Mutex // guards all below
	// The reply to a command, by its first word; nil for the usual ones.
	instead map[string]string
	conn    net.Conn             // the newest
	heard   func(command string) // called before each reply; nil for nothing
}

// usual are the replies by the book.
var usual = map[string]string{
	"HELLO": resptest.Hello, "PING": "+PONG\r\n", "SCRIPT": resptest.Bulk(strings.Repeat("0", 40)),
	"CLIENT": "+OK\r\n",
	"SET":    "+OK\r\n", "EVALSHA": ":1\r\n", "PTTL": ":-2\r\n", "GET": "$-1\r\n",
	"GETRANGE":                "$0\r\n\r\n",
	"EVALSHA " + ids.ProbeKey: "*0\r\n", "PTTL " + ids.AdmittedKey: ":-2\r\n",
	"EVALSHA " + ids.LayoutsKey: resptest.Strings("0"),
}

func (a *actor) dial() net.Conn {
	client, server := net.Pipe()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = server
	go resptest.Serve(server, func(words []string) string { return a.reply(commandName(words)) })
	return client
}

func (a *actor) reply(command string) string {
	a.mu.Lock()
	heard := a.heard
	a.mu.Unlock()
	if heard != nil {
		heard(command)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if text, ok := a.instead[command]; ok {
		return text
	}
	if text, ok := usual[command]; ok {
		return text
	}
	return "-ERR unknown command '" + command + "'\r\n"
}

// play sets what the server says instead of the usual.
func (a *actor) play(instead map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.instead = instead
}

// hear lets heard be called with the first word of each command, before its reply.
func (a *actor) hear(heard func(command string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = heard
}

// cut ends the connection.
func (a *actor) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn.Close()
}

// commandName returns the first word of a command, with ids.ProbeKey or ids.LayoutsKey if that
// is among the others, or with ids.AdmittedKey if the command is PTTL of it.
func commandName(words []string) string {
	first, key := words[0], ""
	for _, word := range words[1:] {
		switch {
		case strings.HasPrefix(word, ids.ProbeKey):
			key = " " + ids.ProbeKey
		case word == ids.LayoutsKey:
			key = " " + ids.LayoutsKey
		case first == "PTTL" && word == ids.AdmittedKey:
			key = " " + ids.AdmittedKey
		}
	}
	return first + key
}

// onStage runs a test in a bubble with n actors, all of them up.
func onStage(t *testing.T, n int, test func(t *testing.T, m *Mux, actors []*actor),
	change ...func(*Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		actors, urls := make([]*actor, n), make([]string, n)
		for i := range actors {
			actors[i], urls[i] = &actor{}, fmt.Sprintf("node-%d", i)
		}
		m := start(t, urls, func(c *Config) {
			c.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				for i, url := range urls {
					if address == url+":6379" {
						return actors[i].dial(), nil
					}
				}
				return nil, errors.New("nobody")
			}
			for _, f := range change {
				f(c)
			}
		})
		up(t, m)
		test(t, m, actors)
		require.NoError(t, m.Close(t.Context()))
	})
}

// work sends every kind of command once, and requires that a quorum answers.
func work(t *testing.T, m *Mux, round int) {
	t.Helper()
	one, many := claim(fmt.Sprint("k", round), fmt.Sprint("t", round)), trio()
	defer m.Line(len(m.nodes)-1).Watch("k", 0, func() {}).Close()
	for _, c := range []*Claim{one, many} {
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1),
			t.Context()))
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
	}
	time.Sleep(100 * time.Millisecond)
}

// commandsUsed are all that a node is sent.
var commandsUsed = []string{
	"HELLO", "PING", "SCRIPT", "CLIENT", "INFO", "GET", "SET", "EVALSHA", "PTTL",
	"GETRANGE", "PTTL " + ids.AdmittedKey, "EVALSHA " + ids.ProbeKey,
}

// asConnecting are those that an idle connection hardly sees.
var asConnecting = []string{
	"HELLO", "PING", "SCRIPT", "CLIENT", "INFO", "GET", "PTTL " + ids.AdmittedKey,
	"EVALSHA " + ids.ProbeKey,
}

// The goal: whatever a server sends against the protocol and in answer to whatever, it loses its
// connection and its vote, with the reason in its status; the others go on, and it is back as soon
// as it behaves. One reader reads all replies of a connection, so commands that open it meet some
// of the streams, and the others meet all.
func TestProtocol_AServerThatBreaksItLosesOnlyItsOwnVote(t *testing.T) {
	t.Parallel()
	for _, victim := range commandsUsed {
		onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
			tried := 0
			for stream := range resptest.Hostile { // in an order that is new each time
				actors[2].play(map[string]string{victim: stream})
				if slices.Contains(asConnecting, victim) {
					if tried++; tried > 12 {
						return
					}
					actors[2].cut()
				}
				for round := 0; !toldOfAFault(m.Nodes()[2], victim); round++ {
					require.Less(t, round, 100, "%s: %.60q: %v", victim, stream, m.Nodes()[2])
					work(t, m, round)
				}
				actors[2].play(nil)
				time.Sleep(endpoint.DialTimeout + link.MaxReconnectDelay)
				work(t, m, 1000)
				require.Equal(t, link.Up, m.Nodes()[2].State, "%s: %.60q", victim, stream)
			}
		})
	}
}

// toldOfAFault reports whether a node is down for what its server says. Of what comes while
// connecting a part may be a whole reply, and refused as such before the rest is looked at, or
// awaited in vain.
func toldOfAFault(s NodeStatus, victim string) bool {
	return s.State == link.Down && (slices.Contains(asConnecting, victim) ||
		strings.Contains(s.Err.Error(), "protocol error: "))
}

// wellFramed are replies in order of which most are none that any of our commands has.
var wellFramed = []string{
	":0\r\n", ":7\r\n", ":-1\r\n", ":9223372036854775807\r\n", "+\r\n", "+QUEUED\r\n", "+OK\r\n",
	"$0\r\n\r\n", "$-1\r\n", "_\r\n", "*-1\r\n", "*0\r\n", "*1\r\n:1\r\n",
	"*2\r\n:1\r\n:1\r\n", "*3\r\n:0\r\n:1\r\n:9\r\n", "*3\r\n:9223372036854775807\r\n:1\r\n:1\r\n",
	"*3\r\n:0\r\n:-1\r\n:0\r\n", "*3\r\n:0\r\n$1\r\n1\r\n_\r\n",
	"*1\r\n*1\r\n*0\r\n", "%0\r\n", "%1\r\n:1\r\n:2\r\n", "%1\r\n*0\r\n+x\r\n",
	"%1\r\n+proto\r\n*3\r\n:1\r\n:2\r\n:3\r\n", "%2\r\n+proto\r\n:3\r\n+version\r\n*0\r\n",
	"%2\r\n+proto\r\n:3\r\n+version\r\n:6\r\n", "~2\r\n+a\r\n+a\r\n", "#t\r\n", "#f\r\n",
	",1.5\r\n", ",nan\r\n", "(12345678901234567890\r\n", "=5\r\ntxt:x\r\n", "!7\r\nERR odd\r\n",
	"-\r\n", "-ERR\r\n", "-MOVED\r\n", "-MOVED 1\r\n", "-ASK\r\n", "-REDIRECT\r\n", "-LOADING\r\n",
	"-NOSCRIPT\r\n", "-NOPERM\r\n", "-BUSY\r\n",
	"-ERR unknown command 'HELLO'\r\n", "|1\r\n+a\r\n*0\r\n%0\r\n",
	"*2\r\n-ERR inside\r\n!3\r\nERR\r\n",
}

// The goal: a reply in order that makes no sense ends no process, and the node is back as soon as
// it behaves.
func TestProtocol_AReplyOfAnotherShapeHarmsNobodyElse(t *testing.T) {
	notShort(t, "each reply of another shape, to each command")
	t.Parallel()
	for _, victim := range commandsUsed {
		onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
			for _, stream := range append(wellFramed, "%2\r\n+proto\r\n:3\r\n+version\r\n+6\r\n") {
				actors[2].play(map[string]string{victim: stream})
				work(t, m, 1)
				actors[2].cut()
				work(t, m, 2)
				actors[2].play(nil)
				actors[2].cut()
				time.Sleep(2 * link.MaxReconnectDelay)
				work(t, m, 3)
				require.Equal(t, link.Up, m.Nodes()[2].State, "%s: %q", victim, stream)
			}
		})
	}
}

// The goal: only the replies of the contract grant, and only null or a list that adds up refuses.
func TestProtocol_AReplyOfAnotherShapeIsNoVote(t *testing.T) {
	for _, command := range []string{"SET", "EVALSHA"} {
		for _, stream := range wellFramed {
			c, granting, refusing := claim("k", "t"), stream == "+OK\r\n",
				map[string]bool{"$-1\r\n": true, "_\r\n": true, "*-1\r\n": true}[stream]
			if command == "EVALSHA" {
				c, granting, refusing = trio(), stream == "*1\r\n:1\r\n", false
			}
			onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
				actors[0].play(map[string]string{command: stream})
				err := wait(m.Acquire(c, time.Minute, 1), t.Context())
				switch {
				case granting:
					require.NoError(t, err)
				case refusing:
					require.ErrorIs(t, err, ErrHeld, "%s %q", command, stream)
				default:
					require.ErrorIs(t, err, ErrNoQuorum, "%s %q", command, stream)
				}
				actors[0].play(nil)
			})
		}
	}
}

// The goal: a push that makes no sense is ignored.
func TestProtocol_AnOddPushIsIgnored(t *testing.T) {
	for _, stream := range wellFramed {
		onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
			actors[0].play(map[string]string{"SET": "+OK\r\n>2\r\n$10\r\ninvalidate\r\n" + stream +
				">1\r\n+invalidate\r\n>3\r\n+a\r\n" + stream + stream})
			conn := actors[0].conn
			for round := range 5 {
				work(t, m, round)
			}
			require.Equal(t, link.Up, m.Nodes()[0].State)
			require.Same(t, conn, actors[0].conn, "%q", stream)
		})
	}
}

// The goal: what a server says unasked, on a connection that has been good for long, is in the log,
// and so is that the server has ended the connection. The node is connected again at once.
func TestProtocol_TheLogSaysWhyALongConnectionWasLost(t *testing.T) {
	for why, lose := range map[string]func(c net.Conn) error{
		`"protocol error: a reply of type '-' that no command asked for"`: func(c net.Conn) error {
			_, err := io.WriteString(c, "-ERR surprise\r\n")
			return err
		},
		"EOF": net.Conn.Close,
	} {
		var log journal
		onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
			time.Sleep(2*link.StableAfter + link.SilenceGap/2) // between two probes
			require.NoError(t, lose(actors[0].conn))
			synctest.Wait()
			require.Contains(t, log.String(),
				`msg="lockpipe: connection to node lost" node=node-0:6379 error=`+why)
			// rueidis may still have had the lost connection at the first try. The second try comes
			// 1 ms later.
			time.Sleep(link.MinReconnectDelay / 5)
			require.Equal(t, link.Up, m.Nodes()[0].State)
		}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	}
}

// The goal: what a server that is full says as soon as it is connected, whatever it is asked, is
// shown.
func TestProtocol_AServerThatSpeaksFirstIsHeard(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		actors[0].play(map[string]string{
			"HELLO": "-ERR max number of clients reached\r\n" + resptest.Hello,
		})
		actors[0].cut()
		time.Sleep(time.Second)
		synctest.Wait()
		status := m.Nodes()[0]
		require.Equal(t, link.Down, status.State)
		require.ErrorContains(t, status.Err, "max number of clients reached")
		actors[0].play(nil)
		time.Sleep(2 * link.MaxReconnectDelay)
		require.Equal(t, link.Up, m.Nodes()[0].State)
	})
}

func trio() *Claim {
	c := new(Claim)
	c.Init("", []string{"a", "b", "c"}, "t", "")
	return c
}
