package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// quietly does something and returns how many cores others on this machine had meanwhile: more than a few
// tenths, and what was measured is worth little. It is 0 where the machine does not tell.
func quietly(do func() error) (others float64, err error) {
	begin, before := time.Now(), ofOthers()
	err = do()
	return max(0, (ofOthers()-before).Seconds()/time.Since(begin).Seconds()), err
}

// ofOthers is the CPU time that neither we nor the processes we started and waited for have used.
func ofOthers() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	// user, nice, system, idle, iowait, irq, softirq, steal: since the start, in hundredths of a second
	var t [8]int64
	line, _, _ := strings.Cut(strings.TrimPrefix(string(text), "cpu "), "\n")
	if _, err := fmt.Sscan(line, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]); err != nil {
		return 0
	}
	used := time.Duration(t[0]+t[1]+t[2]+t[5]+t[6]+t[7]) * 10 * time.Millisecond
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			used -= time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return used
}
