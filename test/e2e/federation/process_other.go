//go:build !linux

package federation

import "syscall"

// ownGroup keeps a Ctrl-C at the terminal from a process.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
