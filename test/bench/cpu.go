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

// perCore returns how often something was done in a second of CPU time, which does not see who else is on
// the machine. Each turn of prepare, which is not counted, gives some to do, and that says how often it
// did it. It lasts so much CPU time, or ten times as long by the wall's clock.
func perCore(lasts time.Duration, prepare func() (do func() int, err error)) (float64, error) {
	var used time.Duration
	done := 0
	for begin := time.Now(); used < lasts && time.Since(begin) < 10*lasts; {
		do, err := prepare()
		if err != nil {
			return 0, err
		}
		start, err := cpuTime()
		if err != nil {
			return 0, err
		}
		done += do()
		end, err := cpuTime()
		if err != nil {
			return 0, err
		}
		used += end - start
	}
	return float64(done) / used.Seconds(), nil
}
