package main

import (
	"os"
	"syscall"
)

// datasync is what SQLite calls.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
