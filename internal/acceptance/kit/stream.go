package kit

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// fakeConn is one end of a connection. It has no deadlines.
type fakeConn struct{ in, out *stream }

func (c *fakeConn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *fakeConn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *fakeConn) Close() error {
	c.in.leave()
	c.out.end()
	return nil
}

func (*fakeConn) LocalAddr() net.Addr { return &net.UnixAddr{Name: "fake"} }

func (*fakeConn) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "fake"} }

func (*fakeConn) SetDeadline(time.Time) error { return nil }

func (*fakeConn) SetReadDeadline(time.Time) error { return nil }

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
	return &stream{latency: n.Latency, far: n.Far, news: make(chan struct{}, 1)}
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
