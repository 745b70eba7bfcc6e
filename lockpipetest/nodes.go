package lockpipetest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
)

// What Nodes.Backend returns.
const (
	backendReal      = "redis-server"
	backendInProcess = "in-process"
)

// bootAttempts bounds how often the start of a server is tried.
const bootAttempts = 5

var (
	errClosed     = errors.New("the nodes are closed")
	errNotRunning = errors.New("node is not running")
)

// Nodes is a group of independent Redis masters on 127.0.0.1. A node keeps its address from Start
// to Close, also through Kill and Restart. All methods are safe for concurrent use; those that
// change the state of one node take turns on that node. A node number outside 0..Len()-1 is an
// error. After Close every method that reaches for a node returns an error.
type Nodes struct {
	// Set once before Start returns.
	backend string
	nodes   []*node
	spawner *spawner // nil for in-process nodes

	closed    atomic.Bool // true from the beginning of Close
	closeOnce sync.Once
	closeErr  error // written in closeOnce
}

// Start starts n masters at once and returns when every one of them answers. They are redis-server
// children when that program is on the PATH, in-process servers otherwise. The caller ends them
// with Close. On an error nothing is left running. A redis-server that is there but does not start
// is an error, not a reason for in-process nodes.
func Start(n int) (*Nodes, error) {
	path, err := findRedisServer()
	if err != nil {
		return StartInProcess(n)
	}
	return startReal(path, n)
}

// StartInProcess is Start with in-process servers, whether or not there is a redis-server. They
// expire keys by the wall clock, as Redis does, and need no program, but a command costs time in
// proportion to the number of keys that the node holds.
func StartInProcess(n int) (*Nodes, error) {
	return start(&Nodes{backend: backendInProcess}, n, bootInProcess)
}

func findRedisServer() (string, error) { return exec.LookPath("redis-server") }

func startReal(path string, n int) (*Nodes, error) {
	nodes := &Nodes{backend: backendReal, spawner: newSpawner()}
	return start(nodes, n, bootRedis(nodes.spawner, path, guardsDebug(path)))
}

func start(nodes *Nodes, n int, boot bootFunc) (*Nodes, error) {
	if n < 1 {
		return nil, errors.Join(fmt.Errorf("lockpipetest: %d nodes asked for, at least 1 is needed",
			n), nodes.Close())
	}
	started := make([]*node, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { started[i], errs[i] = newNode(boot) })
	}
	wg.Wait()
	for _, nd := range started {
		if nd != nil {
			nodes.nodes = append(nodes.nodes, nd)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(fmt.Errorf("lockpipetest: start: %w", err), nodes.Close())
	}
	return nodes, nil
}

// Backend says what the nodes are: "redis-server" (child processes) or "in-process".
func (n *Nodes) Backend() string { return n.backend }

// Len returns the number of nodes, dead ones included.
func (n *Nodes) Len() int { return len(n.nodes) }

// URLs returns the address of every node as redis://127.0.0.1:port, in the order of their numbers.
// The slice is the caller's own.
func (n *Nodes) URLs() []string {
	urls := make([]string, len(n.nodes))
	for i, nd := range n.nodes {
		urls[i] = "redis://" + nd.port.addr
	}
	return urls
}

// Freeze stops node i as SIGSTOP does: when it returns, the node executes nothing any more.
// Connections stay open and new ones still succeed, what clients send is kept, and the time to live
// of keys goes on. Freezing a frozen node changes nothing. A dead node is an error, and so is a
// redis-server child on a system without SIGSTOP.
func (n *Nodes) Freeze(i int) error {
	return n.inTurn(i, "freeze", (*node).freeze)
}

// Thaw lets a frozen node go on. It then executes all it was sent meanwhile, also what a client has
// given up on since. Thawing a node that is not frozen changes nothing; a dead node is an error.
func (n *Nodes) Thaw(i int) error {
	return n.inTurn(i, "thaw", (*node).thaw)
}

// Kill ends node i as SIGKILL does, frozen or not. When it returns, the node's connections are
// broken, its data is gone, commands that were not answered never will be, and its port refuses
// connections. Killing a dead node changes nothing.
func (n *Nodes) Kill(i int) error {
	return n.inTurn(i, "kill", (*node).kill)
}

// Restart puts a new and EMPTY server (no keys, no scripts, default configuration) on the address
// of node i and returns when it answers. A server that is still there is killed first. On an error
// the node is dead.
func (n *Nodes) Restart(i int) error {
	return n.inTurn(i, "restart", (*node).restart)
}

// Close kills all nodes, frozen ones too, and returns when they are gone. The addresses are free
// then. A second Close returns what the first one did, and not before it has finished.
func (n *Nodes) Close() error {
	n.closeOnce.Do(func() {
		n.closed.Store(true)
		errs := make([]error, len(n.nodes))
		for i, nd := range n.nodes {
			errs[i] = nd.close()
		}
		if n.spawner != nil {
			n.spawner.close() // no node starts a child any more
		}
		if err := errors.Join(errs...); err != nil {
			n.closeErr = fmt.Errorf("lockpipetest: close: %w", err)
		}
	})
	return n.closeErr
}

// node returns node i, to ask it something.
func (n *Nodes) node(i int) (*node, error) {
	if i < 0 || i >= len(n.nodes) {
		return nil, fmt.Errorf("lockpipetest: no node %d among %d nodes", i, len(n.nodes))
	}
	if n.closed.Load() {
		// Its port may be somebody else's by now.
		return nil, fmt.Errorf("lockpipetest: %w", errClosed)
	}
	return n.nodes[i], nil
}

// inTurn changes the state of node i when it is the caller's turn.
func (n *Nodes) inTurn(i int, verb string, act func(*node) error) error {
	nd, err := n.node(i)
	if err != nil {
		return err
	}
	if err := n.change(nd, act); err != nil {
		return fmt.Errorf("lockpipetest: %s node %d: %w", verb, i, err)
	}
	return nil
}

// change looks at closed once more: a Restart that had to wait must not start a server after Close
// has been there. Close sets closed before it takes its turns, so a server that is started here in
// time is still killed.
func (n *Nodes) change(nd *node, act func(*node) error) error {
	nd.turn.Lock()
	defer nd.turn.Unlock()
	if n.closed.Load() {
		return errClosed
	}
	return act(nd)
}

// server is what currently answers at a node's address: a child process or an in-process server.
type server interface {
	freeze() error // stopped for certain when it returns; repeatable
	thaw() error   // repeatable
	kill() error   // gone for certain when it returns, its port closed; repeatable
}

// bootFunc starts an empty server at addr and returns when that very server answers.
type bootFunc func(addr string) (server, error)

// node is one master: an address for good, and the servers that answer there one after the other.
type node struct {
	// Set once.
	port *port
	boot bootFunc

	// turn is held by whoever changes the state of the server, from the first step to the last. So
	// it is held while a child starts or ends, on purpose. Asking the server something needs no
	// turn.
	turn   sync.Mutex
	server server // guarded by turn; nil when dead
}

// newNode starts a server on a fresh port, and on another one when that fails: where ports can not
// be held, another program may take it before the server does.
func newNode(boot bootFunc) (*node, error) {
	return persist(func() (*node, error) {
		port, err := reservePort()
		if err != nil {
			return nil, fmt.Errorf("reserve a port: %w", err)
		}
		server, err := boot(port.addr)
		if err != nil {
			return nil, errors.Join(err, port.release())
		}
		return &node{port: port, boot: boot, server: server}, nil
	})
}

// persist tries a start again when it fails, but not when it failed for want of time.
func persist[T any](start func() (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		v, err := start()
		if err == nil || attempt == bootAttempts || errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
	}
}

func (nd *node) freeze() error {
	if nd.server == nil {
		return errNotRunning
	}
	return nd.server.freeze()
}

func (nd *node) thaw() error {
	if nd.server == nil {
		return errNotRunning
	}
	return nd.server.thaw()
}

func (nd *node) kill() error {
	if nd.server == nil {
		return nil
	}
	if err := nd.server.kill(); err != nil {
		return err
	}
	nd.server = nil
	return nil
}

func (nd *node) restart() error {
	if err := nd.kill(); err != nil {
		return err
	}
	server, err := persist(func() (server, error) { return nd.boot(nd.port.addr) })
	if err != nil {
		return err
	}
	nd.server = server
	return nil
}

func (nd *node) close() error {
	nd.turn.Lock()
	defer nd.turn.Unlock()
	return errors.Join(nd.kill(), nd.port.release())
}
