package lockpipetest

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// port is a TCP port of 127.0.0.1 that is reserved for one node, also while no server listens
// there.
//
// A socket that is bound but does not listen reserves it, so connections are refused. The socket
// allows address reuse AFTER its own bind. So the bind itself fails on a port that is in use, and a
// server, which always asks for reuse, can still listen there. If a program asks for any port, to
// listen or to connect from, the kernel does not choose a reserved one.
type port struct {
	addr string // 127.0.0.1:port
	fd   int
}

func reservePort() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	number, err := bindLoopback(fd, 0)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &port{addr: fmt.Sprintf("127.0.0.1:%d", number), fd: fd}, nil
}

// bindLoopback binds fd to a port that is not in use and returns its number. If want is 0, the
// kernel chooses the port.
func bindLoopback(fd, want int) (int, error) {
	address := &unix.SockaddrInet4{Port: want, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(fd, address); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	inet, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("bound to %T instead of an IPv4 address", name)
	}
	return inet.Port, nil
}

func (p *port) release() error { return os.NewSyscallError("close", unix.Close(p.fd)) }

// stopListening frees the port at once. Until a child process executes its program, it has a copy
// of each socket of this process. So a listener that is only closed may listen for a moment longer.
func stopListening(listener net.Listener) error {
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	var shutdown error
	if err := raw.Control(func(fd uintptr) {
		shutdown = os.NewSyscallError("shutdown", unix.Shutdown(int(fd), unix.SHUT_RDWR))
	}); err != nil {
		return err
	}
	return shutdown
}
