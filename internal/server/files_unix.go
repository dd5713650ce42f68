//go:build unix

package server

import "syscall"

// openFiles is how many files the process may open.
func openFiles() int {
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) != nil {
		return unlimited
	}
	return int(min(most.Cur, unlimited))
}
