package lockpipetest

import (
	"errors"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
	rserver "github.com/alicebob/miniredis/v2/server"
)

// inProcess is a miniredis server that can be stopped as a process can.
//
// While frozen, it holds two things. It holds the lock that every command takes before it touches
// data, so no command is executed. And it holds back the replies, with a switch in each connection,
// because some commands are answered without the lock: an unknown command, or one that MULTI
// queues. The switch also makes the kill of a frozen server exact. The commands that wait for the
// lock run when the kill unlocks it. But no client sees their data, and their replies are not sent.
// A hook before each command, which miniredis offers, would be simpler. But it also sees the
// commands that scripts call, while the lock is taken. And it does not show when the last command
// has finished.
type inProcess struct {
	// Set once.
	redis    *miniredis.Miniredis
	listener net.Listener
	replies  *pauseSwitch
	accepted chan struct{} // closed when accept has returned

	// Guarded by the node's stateMu.
	frozen bool // freeze has locked redis
	dead   bool
}

func launchInProcess(addr string) (server, error) {
	s := &inProcess{
		redis: miniredis.NewMiniRedis(), replies: newPauseSwitch(), accepted: make(chan struct{}),
	}
	// Keys must expire as time passes. FastForward from a ticker would charge a new key the whole
	// tick and expire it early.
	s.redis.ClockTTL(true)
	// Dial starts miniredis without a listener of its own. All connections must have the switch.
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
// one node, at the address of a listener that it does not have. Clients that detect clusters would
// connect to that address.
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
		redis.ServeConn(&pausableConn{Conn: conn, replies: s.replies})
	}
}

func (s *inProcess) freeze() error {
	if !s.frozen {
		s.replies.pause()
		s.redis.Lock() // the present command has finished
		s.frozen = true
	}
	return nil
}

func (s *inProcess) thaw() error {
	if s.frozen {
		s.frozen = false
		s.redis.Unlock()
		s.replies.resume()
	}
	return nil
}

func (s *inProcess) kill() error {
	if s.dead {
		return nil
	}
	s.dead = true
	s.replies.destroy() // first: from here on no reply gets out
	err := errors.Join(stopListening(s.listener), s.listener.Close())
	<-s.accepted
	if s.frozen {
		s.frozen = false
		s.redis.Unlock()
	}
	s.redis.Close() // closes the connections and waits for their goroutines
	return err
}

// pausableConn is a connection of a server that may be frozen.
type pausableConn struct {
	net.Conn
	replies *pauseSwitch
}

func (c *pausableConn) Write(p []byte) (int, error) {
	if err := c.replies.await(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// pauseSwitch is running, paused (callers of await wait) or destroyed (they return an error).
type pauseSwitch struct {
	mu        sync.Mutex
	running   chan struct{} // guarded by mu; closed while not paused
	destroyed chan struct{} // set once; closed by destroy
}

func newPauseSwitch() *pauseSwitch {
	s := &pauseSwitch{running: make(chan struct{}), destroyed: make(chan struct{})}
	close(s.running)
	return s
}

// await returns nil when the switch is running, and net.ErrClosed when it is destroyed.
func (s *pauseSwitch) await() error {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	select {
	case <-running:
	case <-s.destroyed:
	}
	select {
	case <-s.destroyed:
		return net.ErrClosed
	default:
		return nil
	}
}

// pause must be called while running, resume while paused, destroy once.
func (s *pauseSwitch) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = make(chan struct{})
}

func (s *pauseSwitch) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running)
}

func (s *pauseSwitch) destroy() { close(s.destroyed) }
