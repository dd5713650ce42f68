//go:build unix && !linux

package postgrestest

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
