package lab

import "syscall"

// ownGroup gives a daemon a process group, so that a Ctrl-C at the terminal does not reach it and
// its own children end with it; and ends it with us, however we end.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
