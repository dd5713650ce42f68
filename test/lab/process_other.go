//go:build !linux

package lab

import "syscall"

// ownGroup gives a daemon a process group. Elsewhere than on Linux it survives a supervisor that
// was killed by SIGKILL.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
