package lockpipetest

import (
	"errors"
	"math/rand/v2"
	"net"

	"github.com/lockpipe/lockpipe/internal/memorynode"
)

// inProcess is a node in the memory of this process, which can be stopped as a process can.
type inProcess struct {
	// Set once.
	node     *memorynode.Node
	listener net.Listener
	accepted chan struct{} // closed when accept has returned

	dead bool // guarded by the node's stateMu
}

func launchInProcess(addr string) (server, error) {
	listener, err := net.Listen("tcp4", addr)
	if err != nil {
		return nil, err
	}
	s := &inProcess{
		node:     memorynode.New(rand.Int(), 1), // by its number clients tell it from others
		listener: listener, accepted: make(chan struct{}),
	}
	go s.accept()
	return s, nil
}

func (s *inProcess) accept() {
	defer close(s.accepted)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.node.Serve(conn)
	}
}

func (s *inProcess) freeze() error {
	s.node.Freeze()
	return nil
}

func (s *inProcess) thaw() error {
	s.node.Thaw()
	return nil
}

func (s *inProcess) kill() error {
	if s.dead {
		return nil
	}
	s.dead = true
	err := errors.Join(stopListening(s.listener), s.listener.Close())
	<-s.accepted
	s.node.Stop()
	return err
}
