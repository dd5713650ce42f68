//go:build unix

package postgrestest

import (
	"os"
	"syscall"
)

// nobody is whom the server runs as where the tests run as root, which it refuses.
const nobody = 65534

func own(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}

// attributes let a server end with the tests that started it, however these end.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	endWithParent(a)
	if os.Geteuid() == 0 {
		a.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return a
}
