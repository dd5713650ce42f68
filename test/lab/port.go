package lab

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// port is a TCP port of 127.0.0.1 that stays ours while its holder is dead.
type port struct {
	number int
	socket int
}

// reservePort binds a free port and never listens on it: kube-apiserver binds it as well (--permit-port-sharing), and
// between its lives nobody else can take it, neither a listener nor an outgoing connection.
func reservePort() (*port, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	number, err := bindShared(socket)
	if err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return &port{number: number, socket: socket}, nil
}

func bindShared(socket int) (int, error) {
	unix.CloseOnExec(socket)
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return address.(*unix.SockaddrInet4).Port, nil
}

// release may be called on a nil port, and more than once.
func (p *port) release() {
	if p != nil && p.socket >= 0 {
		_ = unix.Close(p.socket)
		p.socket = -1
	}
}
