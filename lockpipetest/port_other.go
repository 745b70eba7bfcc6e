//go:build !linux

package lockpipetest

import "net"

// port is a TCP port of 127.0.0.1 that was free a moment ago. It is not held: the start of a server
// is tried again elsewhere when somebody else was faster, and a Restart that meets a taken port
// fails.
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
