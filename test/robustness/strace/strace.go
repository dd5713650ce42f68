// Package strace reads what `strace -f -yy` writes: which system calls ran, when each began and
// when it ended, and on which file or connection.
package strace

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// Call is one system call, or a signal by its name (SIGTERM). Begin and End number the lines of the
// trace: what ended before another began happened before it.
type Call struct {
	Name string
	// File is what the first argument refers to: a path, or for TCP "TCP:[LOCAL->REMOTE]".
	File       string
	Result     int
	Begin, End int
}

var (
	whole      = regexp.MustCompile(`^(\d+) +(\w+)\((?:\d+<(.*?)>)?[,)].* = (-?\d+)`)
	unfinished = regexp.MustCompile(`^(\d+) +(\w+)\((?:\d+<(.*?)>)?[, ].*<unfinished \.\.\.>$`)
	resumed    = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.* = (-?\d+)`)
	signal     = regexp.MustCompile(`^\d+ +--- (SIG\w+) `)
	// Ends of threads, and calls that a thread died in.
	noise = regexp.MustCompile(`^\d+ +(\+\+\+|\?\?\?\(|.* = \?)`)
)

// Read reads a trace. Calls come in the order in which they ended; one that never returned is left out.
func Read(trace io.Reader) ([]Call, error) {
	var calls []Call
	begun := map[string]Call{} // by thread
	lines := bufio.NewScanner(trace)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if m := unfinished.FindStringSubmatch(line); m != nil {
			begun[m[1]] = Call{Name: m[2], File: m[3], Begin: n}
		} else if m := resumed.FindStringSubmatch(line); m != nil {
			call, ok := begun[m[1]]
			if !ok || call.Name != m[2] {
				return nil, fmt.Errorf("line %d: %s goes on, which did not begin", n, m[2])
			}
			call.Result, _ = strconv.Atoi(m[3])
			call.End = n
			calls = append(calls, call)
		} else if m := whole.FindStringSubmatch(line); m != nil {
			result, _ := strconv.Atoi(m[4])
			calls = append(calls, Call{Name: m[2], File: m[3], Result: result, Begin: n, End: n})
		} else if m := signal.FindStringSubmatch(line); m != nil {
			calls = append(calls, Call{Name: m[1], Begin: n, End: n})
		} else if !noise.MatchString(line) {
			return nil, fmt.Errorf("line %d of the trace is not understood: %.200q", n, line)
		}
	}
	return calls, lines.Err()
}
