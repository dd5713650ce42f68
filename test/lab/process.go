package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
)

// process is one running daemon, in a process group of its own.
type process struct {
	name string
	log  string
	pid  int
	done chan struct{} // closed when it has ended and err is set
	err  error
	told atomic.Bool // to end
}

// run starts a program in dir, its output appended to log. It calls crashed when the program ends
// untold. Of our own environment it gets only the PATH. The garbage collector runs less often than by
// default: a lab has many daemons with small heaps, and each collection takes time from the others.
func run(path string, args []string, dir, log string, crashed func(error), env ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "GOGC=300", "GOMEMLIMIT=1200MiB"}
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = ownGroup()

	p := &process{name: filepath.Base(path), log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the child together with the *thread* that started it: this one must live as long.
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
		return nil, err
	}
	return p, nil
}

// kill ends the process group at once, and returns when the process is gone.
func (p *process) kill() {
	p.told.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal sends the process group a signal, if it has not ended.
func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.done: // its ID may be another's by now
	default:
		_ = syscall.Kill(-p.pid, s)
	}
}

// failure describes an ended process by its last words.
func (p *process) failure() error {
	return fmt.Errorf("%s ended (%v); the end of %s:\n%s", p.name, p.err, p.log, tail(p.log, 15))
}

// tail is the last n lines of a file, as far as they lie in its last 16 KiB.
func tail(path string, n int) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	text = bytes.TrimSpace(text[max(0, len(text)-16<<10):])
	lines := bytes.Split(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
