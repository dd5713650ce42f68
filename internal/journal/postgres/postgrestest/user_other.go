//go:build !linux

package postgrestest

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
