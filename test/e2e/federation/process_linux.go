package federation

import "syscall"

// ownGroup keeps a Ctrl-C at the terminal from a process, and ends it with us, however we end.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
