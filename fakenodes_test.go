package lockpipe_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// shifted is a further client, whose wall clock is off by d.
func (v *fakeNodes) shifted(t *testing.T, d time.Duration) *lockpipe.Client {
	t.Helper()
	c := v.client(t)
	lockpipe.ShiftClock(c, d)
	return c
}

// onlyCompanions wants nothing else left on the nodes.
func (v *fakeNodes) onlyCompanions(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for i := range v.nodes {
		require.Empty(t, v.noCompanions(i), "node %d", i)
	}
}

// noCompanions is what else is left on node i.
func (v *fakeNodes) noCompanions(i int) []string {
	return slices.DeleteFunc(v.keys(i), func(key string) bool {
		return key == prefix+ids.FencesKey
	})
}

// soonOnlyCompanions waits until nothing else is left, as long as keys may last, and wants it to
// stay so. It waits no longer: clients probe their idle connections, so that minutes of virtual
// time are work.
func (v *fakeNodes) soonOnlyCompanions(t *testing.T) {
	t.Helper()
	left := func(i int) bool { return len(v.noCompanions(i)) > 0 }
	for range 120 {
		synctest.Wait()
		if !slices.ContainsFunc(span(0, len(v.nodes)), left) {
			break
		}
		time.Sleep(time.Second)
	}
	time.Sleep(5 * time.Second)
	v.onlyCompanions(t)
}

// intercept has node i reply to commands with what answer returns, or in the usual way if that is
// nothing.
func (v *fakeNodes) intercept(i int, answer func(command string, args []string) (reply string),
) {
	n := v.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.intercepted = answer
}

// hang lets commands of this name hang at node i until the returned function is called.
func (v *fakeNodes) hang(i int, command string) (resume func()) {
	hung := make(chan struct{})
	v.intercept(i, func(asked string, _ []string) string {
		if asked == command {
			<-hung
		}
		return ""
	})
	return func() {
		close(hung)
		synctest.Wait() // what hung is over before the node ends
	}
}

// readOnly is what a replica answers; nothing was executed then.
const readOnly = "READONLY You can't write against a read only replica."

// outOfMemory is what a server answers at maxmemory: nothing was executed, and the connection
// stays.
const outOfMemory = "OOM command not allowed when used memory > 'maxmemory'."

// fakeNodes is a group of in-memory nodes in a synctest bubble. Time passes there only while
// everybody waits, so a machine that stalls cannot make a test miss anything, and times are exact.
// Keys are given without the prefix, as to a client.
type fakeNodes struct {
	urls  []string
	nodes []*fakeNode
}

// inBubble runs a test in a bubble of its own, with n nodes and a client that is connected to all
// of them. Everything is closed when the test ends, whatever state the nodes are in then.
func inBubble(t *testing.T, n int, test func(t *testing.T, v *fakeNodes, c *lockpipe.Client),
	change ...func(*lockpipe.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, n)
		test(t, v, v.client(t, change...))
	})
}

// newFakeNodes is called in the bubble.
func newFakeNodes(t *testing.T, n int) *fakeNodes {
	t.Helper()
	v := &fakeNodes{}
	for i := range n {
		v.urls = append(v.urls, fmt.Sprintf("node-%d:6379", i))
		v.nodes = append(v.nodes, newFakeNode(t, i))
	}
	return v
}

// client returns a further client of the nodes, connected.
func (v *fakeNodes) client(t *testing.T, change ...func(*lockpipe.Config)) *lockpipe.Client {
	t.Helper()
	cfg := config(v.urls, change)
	if cfg.Dial == nil {
		cfg.Dial = v.dial
	}
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	return v.connect(t, c)
}

// connect waits until a client is connected, and closes it when the test ends.
func (v *fakeNodes) connect(t *testing.T, c *lockpipe.Client) *lockpipe.Client {
	t.Helper()
	t.Cleanup(func() {
		// Time stands still after the clean-up, so nothing may be left that only time would end.
		v.heal(span(0, len(v.nodes))...)
		v.speak(span(0, len(v.nodes))...)
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		_ = c.Close(ctx)
	})
	time.Sleep(20 * v.nodes[0].latency)
	synctest.Wait()
	require.True(t, allUp(c), "a node does not come up")
	return c
}

func (v *fakeNodes) dial(_ context.Context, _, addr string) (net.Conn, error) {
	for i, url := range v.urls {
		if url == addr {
			return v.nodes[i].dial(), nil
		}
	}
	return nil, fmt.Errorf("no node %s", addr)
}

// hold is a lease that every node has granted: a call returns when a quorum has, and what follows
// could overtake the rest.
func (v *fakeNodes) hold(t *testing.T, c *lockpipe.Client, key string,
	opts ...lockpipe.Option,
) *lockpipe.Lease {
	t.Helper()
	l := try(t, c, key, opts...)
	synctest.Wait()
	for i := range v.nodes {
		require.Equal(t, l.Token(), v.get(i, key), "node %d", i)
	}
	return l
}

// silence lets the nodes stop before the next lock command: on each connection it hangs, and what
// comes behind it. Other commands are answered on a connection where none hangs, so a client that
// gave up connects again.
func (v *fakeNodes) silence(which ...int) {
	for _, i := range which {
		v.nodes[i].silence()
	}
}

// speak lets silent nodes continue with what hangs, in the order of arrival, also if the client has
// given up the connection. When it returns, the nodes have executed that, and all goroutines have
// done what follows from it.
func (v *fakeNodes) speak(which ...int) {
	for _, i := range which {
		for _, resume := range v.nodes[i].speak() {
			close(resume)
			synctest.Wait() // what an older connection brought comes before what a newer one did
		}
	}
}

// hanging is how many connections of a silent node have a lock command that hangs.
func (v *fakeNodes) hanging(i int) int {
	n := v.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.hung)
}

// fail lets node i answer lock commands with an error such as "READONLY no writes here" instead of
// executing them.
func (v *fakeNodes) fail(i int, message string) { v.nodes[i].fail(message) }

// heal lets failing nodes execute lock commands again.
func (v *fakeNodes) heal(which ...int) {
	for _, i := range which {
		v.nodes[i].fail("")
	}
}

// latency lets what clients send take a random time up to longest to a node, and the answers as
// much back. It is called before there are clients.
func (v *fakeNodes) latency(longest time.Duration) {
	for _, n := range v.nodes {
		n.latency = longest
	}
}

// watch calls see with every command that node i is about to execute, and with SET, PEXPIRE and DEL
// and their key when a script has done that. see must not use the nodes; nil ends it.
func (v *fakeNodes) watch(see func(i int, command string, args []string)) {
	for i, n := range v.nodes {
		n.mu.Lock()
		n.watch = nil
		if see != nil {
			n.watch = func(command string, args []string) { see(i, command, args) }
		}
		n.mu.Unlock()
	}
}

// executed is how many commands of this name, SET or EVALSHA, node i has executed for
// clients. What a script calls does not count.
func (v *fakeNodes) executed(i int, command string) int {
	n := v.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.executed[command]
}

// executedOnAll is the sum of executed for all nodes. An operation that is decided may not be sent
// to the rest of them.
func (v *fakeNodes) executedOnAll(command string) (sum int) {
	for i := range v.nodes {
		sum += v.executed(i, command)
	}
	return sum
}

// sent is how many lock commands the nodes have executed for clients, when all that was sent has
// arrived.
func (v *fakeNodes) sent() (sum int) {
	synctest.Wait()
	for _, command := range []string{"SET", "EVALSHA"} {
		sum += v.executedOnAll(command)
	}
	return sum
}

// get is what the key has on node i; "" where it is not set.
func (v *fakeNodes) get(i int, key string) string {
	value, _ := v.nodes[i].Get(prefix + key)
	return tokenOf(value)
}

// ttl is how long node i will keep the key; 0 where it is not set, or has no end.
func (v *fakeNodes) ttl(i int, key string) time.Duration { return v.nodes[i].TTL(prefix + key) }

// set gives the key a value on node i, without an end.
func (v *fakeNodes) set(i int, key, value string) { v.nodes[i].Set(prefix+key, value) }

// fenceMember is where a node has the numbers of a key.
func fenceMember(key string) string { return strconv.Itoa(int(ids.FenceMember(key))) }

// fence is the highest number that node i knows for the key, as text; "0" where it knows none.
func (v *fakeNodes) fence(i int, key string) string {
	n := v.nodes[i].Score(prefix+ids.FencesKey, fenceMember(key))
	return strconv.FormatInt(int64(n), 10)
}

// setFence has node i know a number for the key.
func (v *fakeNodes) setFence(i int, key, number string) {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	v.nodes[i].SetScore(prefix+ids.FencesKey, fenceMember(key), n)
}

// forgetFence has node i know no number for the key.
func (v *fakeNodes) forgetFence(i int, key string) { v.setFence(i, key, "0") }

// del takes the key off node i.
func (v *fakeNodes) del(i int, key string) { v.nodes[i].Delete(prefix + key) }

// layoutsKey has the layouts in use, which clients leave at each connect.
const layoutsKey = prefix + "lockpipe:layouts"

// keys is what is left on node i, with the prefix, but for the layouts in use, and for what says
// for a moment that a client has left a line.
func (v *fakeNodes) keys(i int) []string {
	return slices.DeleteFunc(v.nodes[i].LiveKeys(), func(key string) bool {
		return key == layoutsKey || strings.HasPrefix(key, prefix+ids.TurnKey)
	})
}

// nothingLeft lets everybody finish what is under way, and wants no key on any node then.
func (v *fakeNodes) nothingLeft(t *testing.T) {
	t.Helper()
	synctest.Wait()
	isLine := func(key string) bool { return strings.HasPrefix(key, prefix+ids.LineKey) }
	for i := range v.nodes {
		if slices.ContainsFunc(v.keys(i), isLine) {
			time.Sleep(time.Second) // it is left in the background
			synctest.Wait()
		}
	}
	for i := range v.nodes {
		require.Empty(t, v.keys(i), "node %d", i)
	}
}

// fakeNode is one of them. It does not push changes.
type fakeNode struct {
	*memorynode.Node
	latency time.Duration // the longest, one way
	far     bool          // and no less
	// It agrees to push changes, and never does; set before there are clients.
	tells bool

	mu       sync.Mutex        // guards all below; never held while a command hangs
	conns    map[net.Conn]bool // to clients
	silent   bool
	hung     []chan struct{} // what hangs, oldest first; closed to go on
	failure  string          // the error that lock commands are answered with; "" for none
	executed map[string]int
	watch    func(command string, args []string) // nil for none
	// See intercept; nil for none.
	intercepted func(command string, args []string) (reply string)
}

func newFakeNode(t *testing.T, id int) *fakeNode {
	t.Helper()
	n := &fakeNode{
		Node: memorynode.New(id, 1), conns: map[net.Conn]bool{}, executed: map[string]int{},
	}
	n.HidesRunID = true // without it the restart guard has nothing to go by, and leaves no keys
	n.OnScript = func(command, key string) { n.see(command, []string{key}) }
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for conn := range n.conns {
			_ = conn.Close()
		}
	})
	return n
}

// serve executes what a client sends.
func (n *fakeNode) serve(conn net.Conn) {
	n.mu.Lock()
	n.conns[conn] = true
	n.mu.Unlock()
	hangUp := func() { _ = conn.Close() }
	session := n.Accept(func([]byte) {}, hangUp) // no change is pushed
	defer session.Close()
	defer hangUp()
	greeted := false // what comes before HELLO asks what the node can do
	for commands := resptest.NewReader(conn); ; {
		args, err := resptest.ReadCommand(commands)
		if err != nil {
			return
		}
		greeted = greeted || args[0] == "HELLO"
		reply := []byte(n.before(args[0], args[1:], greeted))
		if len(reply) == 0 {
			reply = session.Execute(args)
		}
		// If the client has gone, the node executes what it has sent before.
		_, _ = conn.Write(reply)
	}
}

// before is called before every command. It returns the reply if the command is not executed.
func (n *fakeNode) before(command string, args []string, greeted bool) (reply string) {
	n.mu.Lock()
	intercepted := n.intercepted
	n.mu.Unlock()
	if intercepted != nil {
		if reply = intercepted(command, args); reply != "" {
			return reply
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if command == "CLIENT" {
		if n.tells && (args[0] == "TRACKING" || args[0] == "CACHING") {
			return "+OK\r\n"
		}
		// No change is pushed, and no former connection is ended: its commands may come late.
		return failed("ERR unknown subcommand")
	}
	lock := greeted && (command == "SET" || command == "EVALSHA" || command == "ZADD")
	probes := func(arg string) bool { return strings.HasPrefix(arg, prefix+"lockpipe:none:") }
	switch {
	case lock && slices.ContainsFunc(args, probes): // the connector's, at any time
		if n.failure != "" {
			return failed(n.failure)
		}
		return ""
	case lock && !slices.Contains(args, layoutsKey):
		if reply = n.refuse(); reply != "" {
			return reply
		}
		n.executed[command]++
	}
	if n.watch != nil {
		n.watch(command, args)
	}
	return ""
}

// see reports what a script has done. The node is locked.
func (n *fakeNode) see(command string, args []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watch != nil {
		n.watch(command, args)
	}
}

// refuse lets a lock command hang or fail, if it is to. mu is held, and given up while it hangs.
func (n *fakeNode) refuse() (reply string) {
	if n.silent {
		resume := make(chan struct{})
		n.hung = append(n.hung, resume)
		n.mu.Unlock()
		<-resume
		n.mu.Lock()
	}
	if n.failure != "" {
		return failed(n.failure)
	}
	return ""
}

// failed is the reply that is this error.
func failed(message string) string { return "-" + message + "\r\n" }

func (n *fakeNode) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = true
}

// speak returns what hangs.
func (n *fakeNode) speak() (hung []chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	hung, n.hung, n.silent = n.hung, nil, false
	return hung
}

func (n *fakeNode) fail(message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failure = message
}

func (n *fakeNode) dial() net.Conn {
	there, back := newStream(n), newStream(n)
	go n.serve(&fakeConn{in: there, out: back})
	return &fakeConn{in: back, out: there}
}

// fakeConn is one end of a connection. It has no deadlines.
type fakeConn struct{ in, out *stream }

func (c *fakeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *fakeConn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *fakeConn) Close() error {
	c.in.leave()
	c.out.end()
	return nil
}

func (*fakeConn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "fake"} }
func (*fakeConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "fake"} }
func (*fakeConn) SetDeadline(time.Time) error      { return nil }
func (*fakeConn) SetReadDeadline(time.Time) error  { return nil }
func (*fakeConn) SetWriteDeadline(time.Time) error { return nil }

// stream is one way of a connection. It keeps what its reader has not read yet, as a kernel does: a
// net.Pipe would hold up who writes to a silent node, and lose what was written when he closes.
type stream struct {
	latency time.Duration // the longest
	far     bool          // and no less
	news    chan struct{} // there is something to see for the reader

	mu     sync.Mutex // guards all below
	pieces []piece    // not read yet
	ended  bool       // nothing more is written
	left   bool       // nobody reads any more
}

// piece is what was written at once, and when it may be read.
type piece struct {
	data []byte
	due  time.Time
}

func newStream(n *fakeNode) *stream {
	return &stream{latency: n.latency, far: n.far, news: make(chan struct{}, 1)}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.left {
		return 0, io.ErrClosedPipe
	}
	next := piece{data: bytes.Clone(p)}
	if s.latency > 0 {
		next.due = time.Now().Add(rand.N(s.latency + 1))
	}
	if s.far {
		next.due = time.Now().Add(s.latency)
	}
	s.pieces = append(s.pieces, next)
	s.tell()
	return len(p), nil
}

// read waits until there is something that is due, or the end.
func (s *stream) read(p []byte) (int, error) {
	for {
		n, wait, err := s.take(p)
		switch {
		case n > 0 || err != nil:
			return n, err
		case wait <= 0: // there is nothing. No timer is made that has expired: see CONTRIBUTING.md
			<-s.news
			continue
		}
		due := time.NewTimer(wait)
		select {
		case <-due.C:
		case <-s.news:
			due.Stop()
		}
	}
}

// take takes what is due. If the first piece is not, it returns how long that takes.
func (s *stream) take(p []byte) (n int, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.left:
		return 0, 0, io.ErrClosedPipe
	case len(s.pieces) == 0 && s.ended:
		return 0, 0, io.EOF
	case len(s.pieces) == 0:
		return 0, 0, nil
	}
	first := &s.pieces[0]
	if s.latency > 0 {
		if wait = time.Until(first.due); wait > 0 {
			return 0, wait, nil
		}
	}
	n = copy(p, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, 0, nil
}

// end is called by the writer, and leave by the reader.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.tell()
}

func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.pieces = true, nil
	s.tell()
}

// tell wakes the reader. mu is held.
func (s *stream) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// The goal: a silent fake node is like a frozen server. When it continues, it executes what it was
// sent, in the order of arrival, also from a connection that the client gave up.
func TestFakeNodes_ASilentOneExecutesWhatItWasSent(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		v.silence(0)
		leases := []*lockpipe.Lease{try(t, c, "a"), try(t, c, "b"), try(t, c, "c")}
		all, err := c.TryAcquireAll(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
		time.Sleep(10 * time.Second) // several connections
		require.NoError(t, c.ReleaseAll(t.Context(), append(leases, all)...))
		synctest.Wait()
		require.Zero(t, v.executed(0, "SET")+v.executed(0, "EVALSHA"))
		require.Equal(t, 3, v.executed(1, "SET"), "what a script calls is not counted")
		require.Greater(t, v.hanging(0), 1)
		var deleted atomic.Bool
		v.watch(func(i int, command string, args []string) {
			if i == 0 && command == "DEL" && args[0] == prefix+"a" {
				deleted.Store(true)
			}
		})
		v.speak(0)
		require.True(t, deleted.Load(), "the first connection set it, a later one deleted it")
		require.Zero(t, v.hanging(0))
		require.Positive(t, v.executed(0, "SET"))
		time.Sleep(time.Second)
		v.nothingLeft(t)
	})
}
