//go:build !linux

package lockpipetest

import "net"

// port is a TCP port of 127.0.0.1 that was free a moment ago. It is not reserved. If another
// program takes it first, the start of a server is retried on another port, and a Restart fails.
type port struct {
	addr string // 127.0.0.1:port
}

func reservePort() (*port, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &port{addr: l.Addr().String()}, l.Close()
}

func (p *port) release() error { return nil }

// stopListening does nothing: a port is not reserved here, and a Restart may fail.
func stopListening(net.Listener) error { return nil }
