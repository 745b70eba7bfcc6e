package lockpipetest

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

const (
	// A packet of the cluster bus begins with its signature, and has the ID of its sender here.
	busSender   = 40
	busIDLength = 40
	// busOffset is how much higher than that of clients the port of the bus is.
	busOffset = 10_000
)

// bus is where the other servers of a cluster reach one server. It passes on what they send, and
// can be cut.
type bus struct {
	id       string // of the server
	target   string
	listener net.Listener

	mu    sync.Mutex          // guards all below; a leaf
	cut   map[string]bool     // of the servers that are cut off, by their IDs
	conns map[net.Conn]string // with the ID of the server that is at the other end; "": not known
}

// newBus returns the bus of the server at addr, which has this ID.
func newBus(addr, id string) (*bus, error) {
	host, port, _ := strings.Cut(addr, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bus{
		id: id, target: net.JoinHostPort(host, strconv.Itoa(number+busOffset)), listener: listener,
		conns: map[net.Conn]string{},
	}
	go b.accept()
	return b, nil
}

// port returns the port at which the other servers reach the server.
func (b *bus) port() string {
	_, port, _ := net.SplitHostPort(b.listener.Addr().String())
	return port
}

// accept passes each connection on, until the bus is closed.
func (b *bus) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.pass(conn)
	}
}

// pass passes on one connection. The first packet says from which server it is.
func (b *bus) pass(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if !b.note(conn, "") {
		return
	}
	defer b.forget(conn)
	head := make([]byte, busSender+busIDLength)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	if !b.note(conn, string(head[busSender:])) {
		return
	}
	to, err := net.Dial("tcp", b.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if _, err := to.Write(head); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(conn, to)
		_ = conn.Close()
	}()
	_, _ = io.Copy(to, conn)
}

// note notes from which server a connection is. It returns false if one of the two servers is cut
// off from the other.
func (b *bus) note(conn net.Conn, from string) (open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil || from != "" && b.cut[b.id] != b.cut[from] {
		return false
	}
	b.conns[conn] = from
	return true
}

func (b *bus) forget(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, conn)
}

// isCut reports whether the server of the bus is cut off.
func (b *bus) isCut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cut[b.id]
}

// setCut has these servers cut off from all others.
func (b *bus) setCut(cut map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = cut
	for conn, from := range b.conns {
		if cut[b.id] != cut[from] {
			_ = conn.Close()
		}
	}
}

// close ends all connections, and refuses others.
func (b *bus) close() {
	_ = b.listener.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		_ = conn.Close()
	}
	b.conns = nil
}
