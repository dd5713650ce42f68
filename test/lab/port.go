package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// FreePort returns a TCP port that is free on every address. It lies below those that systems give
// to outgoing connections, so a program that starts again gets it again. No other lab or test of
// this user gets it before this process ends.
func FreePort() (int, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("bourse-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	for range 1000 {
		port := 20_000 + rand.IntN(10_000)
		switch taken, err := takePort(filepath.Join(dir, strconv.Itoa(port))); {
		case err != nil:
			return 0, err
		case !taken:
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port between 20000 and 30000")
}

// takePort locks the file of a port for as long as this process lives.
func takePort(name string) (bool, error) {
	file, err := unix.Open(name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false, fmt.Errorf("open %s: %w", name, err)
	}
	err = unix.Flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return true, nil
	}
	_ = unix.Close(file)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", name, err)
}

// port is a TCP port of 127.0.0.1 that stays ours while its holder is dead.
type port struct {
	number int
	socket int
}

// reservePort binds a free port and never listens on it: kube-apiserver binds it as well
// (--permit-port-sharing), and between its lives nobody else can take it, neither a listener nor an
// outgoing connection.
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
