package lockpipetest

import (
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
	rserver "github.com/alicebob/miniredis/v2/server"
)

// inProcess is a miniredis server that can be stopped as a process can.
//
// Frozen, it holds two things back: the lock that every command takes before it touches data, so
// that nothing is executed; and the replies, with a gate in each connection, as some commands (an
// unknown one, or one that is queued by MULTI) are answered without the lock. The gate is also what
// makes the kill of a frozen server exact: the commands that wait for the lock at that moment do
// run when it is let go, but on data that nobody sees again, and their replies go nowhere. A hook
// before each command, which miniredis offers, would be simpler, but it sees the commands that
// scripts call too, at a time when the lock is taken, and it can not tell when the last command has
// finished.
type inProcess struct {
	// Set once.
	redis    *miniredis.Miniredis
	listener net.Listener
	gate     *gate
	accepted chan struct{} // closed when accept has returned

	// Owned by the node's turn.
	frozen bool // redis is locked by freeze
	dead   bool
}

func bootInProcess(addr string) (server, error) {
	s := &inProcess{redis: miniredis.NewMiniRedis(), gate: newGate(), accepted: make(chan struct{})}
	// Keys must expire as time goes by. FastForward from a ticker would charge a new key the whole
	// tick and expire it early.
	s.redis.ClockTTL(true)
	// Dial is the way to start miniredis without a listener of its own: connections have to come
	// through the gate.
	conn, err := s.redis.Dial()
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	s.redis.Server().SetPreHook(refuseCluster)
	if s.listener, err = net.Listen("tcp4", addr); err != nil {
		s.redis.Close()
		return nil, err
	}
	go s.accept()
	return s, nil
}

// refuseCluster answers CLUSTER as a plain server does. miniredis would claim to be a cluster of
// one, at the address of a listener that it does not have, and clients that find out for themselves
// what they talk to would follow it there.
func refuseCluster(c *rserver.Peer, cmd string, _ ...string) bool {
	if cmd != "CLUSTER" {
		return false
	}
	c.WriteError("ERR This instance has cluster support disabled")
	return true
}

func (s *inProcess) accept() {
	defer close(s.accepted)
	redis := s.redis.Server()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		redis.ServeConn(&gatedConn{Conn: conn, gate: s.gate})
	}
}

func (s *inProcess) freeze() error {
	if !s.frozen {
		s.gate.shut()
		s.redis.Lock() // the command under way has finished
		s.frozen = true
	}
	return nil
}

func (s *inProcess) thaw() error {
	if s.frozen {
		s.frozen = false
		s.redis.Unlock()
		s.gate.open()
	}
	return nil
}

func (s *inProcess) kill() error {
	if s.dead {
		return nil
	}
	s.dead = true
	s.gate.wreck() // first: from here on no reply gets out
	err := s.listener.Close()
	<-s.accepted
	if s.frozen {
		s.frozen = false
		s.redis.Unlock()
	}
	s.redis.Close() // closes the connections and waits for their goroutines
	return err
}

// gatedConn is a connection of a server that may be frozen.
type gatedConn struct {
	net.Conn
	gate *gate
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.gate.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// gate is open, shut (who comes waits), or wrecked (who comes or waits is turned away, for ever).
type gate struct {
	mu      sync.Mutex
	opened  chan struct{} // guarded by mu; closed while the gate is open
	wrecked chan struct{} // set once; closed by wreck
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{}), wrecked: make(chan struct{})}
	close(g.opened)
	return g
}

// pass returns nil when the gate is open, and net.ErrClosed when it is wrecked.
func (g *gate) pass() error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-g.wrecked:
	}
	select {
	case <-g.wrecked:
		return net.ErrClosed
	default:
		return nil
	}
}

// shut must be called on an open gate, open on a shut one, wreck once.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
}

func (g *gate) wreck() { close(g.wrecked) }
