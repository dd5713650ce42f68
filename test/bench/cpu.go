package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of all cores, the runtime's own threads included.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// perCore repeats a step for some seconds of CPU time and returns how often it was done in a second of
// it. CPU time does not see who else is on the machine; wall time bounds how long that takes. before, if
// any, is done before each step and not counted.
func perCore(lasts time.Duration, before func() error, step func()) (float64, error) {
	var used time.Duration
	begin, n := time.Now(), 0
	for used < lasts && time.Since(begin) < 10*lasts {
		if before != nil {
			if err := before(); err != nil {
				return 0, err
			}
		}
		start, err := cpuTime()
		if err != nil {
			return 0, err
		}
		for batch := time.Now(); ; {
			step()
			n++
			if before != nil || time.Since(batch) > 20*time.Millisecond {
				break
			}
		}
		end, err := cpuTime()
		if err != nil {
			return 0, err
		}
		used += end - start
	}
	return float64(n) / used.Seconds(), nil
}
