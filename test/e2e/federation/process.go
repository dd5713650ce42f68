package federation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is a running program of the federation.
type Process struct {
	name, log string
	pid       int
	told      atomic.Bool // to end
	done      chan struct{}
	err       error
}

// run starts a program in dir, its output appended to NAME.log there. It calls crashed when the
// program ends untold. A program without crashed is expected to end.
func run(name, dir, path string, args []string, crashed func(error)) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = ownGroup()
	p.told.Store(crashed == nil)
	started := make(chan error)
	go func() {
		// Linux ends the child together with the thread that started it: this one must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
		if !p.told.Load() {
			crashed(p.failure())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Kill ends the process at once (SIGKILL) and returns when it is gone. Nil and ended processes stay so.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	p.told.Store(true)
	select {
	case <-p.done: // its ID may be another's by now
	default:
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.done
	}
}

// Expect says that the process will end by itself: it is no crash.
func (p *Process) Expect() { p.told.Store(true) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Log is what the process has said so far, in all its lives.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// failure describes an ended process by its last words.
func (p *Process) failure() error {
	lines := bytes.Split(bytes.TrimSpace([]byte(p.Log())), []byte("\n"))
	last := bytes.Join(lines[max(0, len(lines)-10):], []byte("\n"))
	return fmt.Errorf("%s ended (%v); the end of %s:\n%s", p.name, p.err, p.log, strings.TrimSpace(string(last)))
}

// Signal sends the process a signal. Errors: it has ended.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return p.failure()
	default:
		return syscall.Kill(p.pid, s)
	}
}

// CPU is the time that the process has used of all cores.
func (p *Process) CPU() (time.Duration, error) { return CPUOf(p.pid) }

// CPUOf is the time that a process has used of all cores. Linux counts it in hundredths of a second.
func CPUOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// after the name: state, parent, ..., and as the 12th and 13th the time in user mode and in the kernel
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var user, system int64
	if _, err := fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}
