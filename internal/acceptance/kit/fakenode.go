package kit

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
)

// fakeNode is a node of FakeNodes. It does not push changes.
type fakeNode struct {
	*memorynode.Node
	Latency time.Duration // the longest, one way
	Far     bool          // and no less
	// It agrees to push changes, and never does; set before there are clients.
	Tells bool

	mu       sync.Mutex        // guards all below; never held while a command hangs
	conns    map[net.Conn]bool // to clients
	silent   bool
	hung     []chan struct{} // what hangs, oldest first; closed to go on
	failure  string          // the error that lock commands are answered with; "" for none
	executed map[string]int
	watch    func(command string, args []string) // nil for none
	// See Intercept; nil for none.
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
		n.HangUp()
	})
	return n
}

// HangUp closes all connections. mu is held, as it is in what Watch calls.
func (n *fakeNode) HangUp() {
	for conn := range n.conns {
		_ = conn.Close()
	}
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
		if n.Tells && (args[0] == "TRACKING" || args[0] == "CACHING") {
			return "+OK\r\n"
		}
		// No change is pushed, and no former connection is ended: its commands may come late.
		return Failed("ERR unknown subcommand")
	}
	lock := greeted && (command == "SET" || command == "EVALSHA" || command == "ZADD")
	probes := func(arg string) bool { return strings.HasPrefix(arg, Prefix+"lockpipe:none:") }
	switch {
	case lock && slices.ContainsFunc(args, probes): // the connector's, at any time
		if n.failure != "" {
			return Failed(n.failure)
		}
		return ""
	case lock && !slices.Contains(args, LayoutsKey):
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
		return Failed(n.failure)
	}
	return ""
}

// Failed is the reply that is this error.
func Failed(message string) string { return "-" + message + "\r\n" }

func (n *fakeNode) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = true
}

// Speak returns what hangs.
func (n *fakeNode) Speak() (hung []chan struct{}) {
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

func (n *fakeNode) Dial() net.Conn {
	there, back := newStream(n), newStream(n)
	go n.serve(&fakeConn{in: there, out: back})
	return &fakeConn{in: back, out: there}
}
