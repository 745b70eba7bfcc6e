package lockpipetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// What Nodes.Backend returns.
const (
	backendReal      = "redis-server"
	backendInProcess = "in-process"
)

// launchAttempts bounds how often the start of a server is tried. On Linux one port of five is too
// high for a server of a cluster.
const launchAttempts = 20

var (
	errClosed     = errors.New("the nodes are closed")
	errNotRunning = errors.New("node is not running")
)

// Nodes is a group of independent Redis masters on 127.0.0.1. A node keeps its address from Start
// to Close, also through Kill and Restart. All methods are safe for concurrent use; those that
// change the state of one node exclude each other on that node. A node number outside 0..Len()-1 is
// an error. After Close every method that needs a node returns an error.
type Nodes struct {
	// Set once before Start returns.
	backend string
	nodes   []*node
	spawner *spawner // nil for in-process nodes

	closed    atomic.Bool // true from the beginning of Close
	closeOnce sync.Once
	closeErr  error // written in closeOnce
}

// Start starts n nodes at once and returns when each of them answers. They are redis-server
// children if that program is on the PATH, in-process servers otherwise. The caller ends them with
// Close. After an error nothing is left running. If there is a redis-server that does not start, or
// if LOCKPIPE_REDIS_SERVER names a program that is missing, Start returns an error and does not use
// in-process nodes.
func Start(n int) (*Nodes, error) {
	path, err := findRedisServer()
	switch {
	case err == nil:
		return startReal(path, n)
	case programNamed():
		return nil, fmt.Errorf("lockpipetest: start: %w", err)
	default:
		return StartInProcess(n)
	}
}

// StartInProcess is Start with in-process nodes, whether or not there is a redis-server. They need
// no program, and expire keys as time passes, as Redis does.
func StartInProcess(n int) (*Nodes, error) {
	return start(&Nodes{backend: backendInProcess}, n, launchInProcess)
}

func startReal(path string, n int) (*Nodes, error) {
	nodes := &Nodes{backend: backendReal, spawner: newSpawner()}
	return start(nodes, n, redisLauncher(nodes.spawner, path, hasDebugSettings(path)))
}

func start(nodes *Nodes, n int, launch launchFunc) (*Nodes, error) {
	if n < 1 {
		return nil, errors.Join(fmt.Errorf("lockpipetest: %d nodes asked for, at least 1 is needed",
			n), nodes.Close())
	}
	started := make([]*node, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { started[i], errs[i] = newNode(launch) })
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

// Backend returns what the nodes are: "redis-server" (child processes) or "in-process".
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
// Connections stay open, and new ones still succeed. What clients send is kept. Keys continue to
// expire. Freezing a frozen node changes nothing. Freeze returns an error for a dead node, and for
// a redis-server child on a system without SIGSTOP.
func (n *Nodes) Freeze(i int) error {
	return n.changeNode(i, "freeze", (*node).freeze)
}

// Thaw lets a frozen node continue. The node then executes everything that it was sent meanwhile,
// also commands that a client has given up on. Thawing a node that is not frozen changes nothing.
// Thaw returns an error for a dead node.
func (n *Nodes) Thaw(i int) error {
	return n.changeNode(i, "thaw", (*node).thaw)
}

// Kill ends node i as SIGKILL does, frozen or not. When it returns, the node's connections are
// broken, its data is gone, and its port refuses connections. Commands that were not answered by
// then never are. Killing a dead node changes nothing.
func (n *Nodes) Kill(i int) error {
	return n.changeNode(i, "kill", (*node).kill)
}

// Restart starts a new and EMPTY server (no keys, no scripts, default configuration) at the address
// of node i and returns when it answers. A server that is still there is killed first. After an
// error the node is dead.
func (n *Nodes) Restart(i int) error {
	return n.changeNode(i, "restart", (*node).restart)
}

// Close kills all nodes, frozen ones too, and returns when they are gone. Then the addresses are
// free. A second Close waits for the first one and returns the same.
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

// node returns node i, or an error if there is none or the nodes are closed.
func (n *Nodes) node(i int) (*node, error) {
	if i < 0 || i >= len(n.nodes) {
		return nil, fmt.Errorf("lockpipetest: no node %d among %d nodes", i, len(n.nodes))
	}
	if n.closed.Load() {
		// Another program may have its port by now.
		return nil, fmt.Errorf("lockpipetest: %w", errClosed)
	}
	return n.nodes[i], nil
}

// changeNode changes the state of node i.
func (n *Nodes) changeNode(i int, verb string, act func(*node) error) error {
	nd, err := n.node(i)
	if err != nil {
		return err
	}
	if err := n.changeState(nd, act); err != nil {
		return fmt.Errorf("lockpipetest: %s node %d: %w", verb, i, err)
	}
	return nil
}

// changeState checks closed again under the lock: a Restart that had to wait must not start a
// server after Close. Close sets closed before it locks a node, so it still kills a server that is
// started here before that.
func (n *Nodes) changeState(nd *node, act func(*node) error) error {
	nd.stateMu.Lock()
	defer nd.stateMu.Unlock()
	if n.closed.Load() {
		return errClosed
	}
	return act(nd)
}

// server is what answers at a node's address now: a child process or an in-process server.
type server interface {
	freeze() error // stopped when it returns; repeatable
	thaw() error   // repeatable
	kill() error   // gone when it returns, its port closed; repeatable
}

// launchFunc starts an empty server at addr and returns when that very server answers.
type launchFunc func(addr string) (server, error)

// node is one master: an address that stays, and the servers that answer there one after another.
type node struct {
	// Set once.
	port   *port
	launch launchFunc

	// stateMu is held during a whole change of the server's state: also, on purpose, while a child
	// starts or ends. Sending commands to the server does not need it.
	stateMu sync.Mutex
	server  server // guarded by stateMu; nil when dead
}

// newNode starts a server on a free port. If that fails, it tries another port: on a system that
// can't reserve ports, another program may take the port before the server does.
func newNode(launch launchFunc) (*node, error) {
	return retryLaunch(func() (*node, error) {
		port, err := reservePort()
		if err != nil {
			return nil, fmt.Errorf("reserve a port: %w", err)
		}
		server, err := launch(port.addr)
		if err != nil {
			return nil, errors.Join(err, port.release())
		}
		return &node{port: port, launch: launch, server: server}, nil
	})
}

// retryLaunch retries a start that fails, unless it ran out of time.
func retryLaunch[T any](start func() (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		v, err := start()
		if err == nil || attempt == launchAttempts || errors.Is(err, context.DeadlineExceeded) {
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
	server, err := retryLaunch(func() (server, error) { return nd.launch(nd.port.addr) })
	if err != nil {
		return err
	}
	nd.server = server
	return nil
}

func (nd *node) close() error {
	nd.stateMu.Lock()
	defer nd.stateMu.Unlock()
	return errors.Join(nd.kill(), nd.port.release())
}
