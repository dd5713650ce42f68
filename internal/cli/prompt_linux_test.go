package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ctrl-C at any question of init ends it, and so does the end of the terminal's input.
func TestInterruptAtAPrompt(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bourse := filepath.Join(t.TempDir(), "bourse") // TestMain knows by the name what to run
	if err := os.Symlink(program, bourse); err != nil {
		t.Fatal(err)
	}
	for name, answers := range map[string][]string{"first": {"\x03"}, "third": {"n\n", "rome\n", "\x03"}} {
		t.Run(name, func(t *testing.T) {
			keyboard, screen := openTerminal(t)
			cmd := exec.CommandContext(t.Context(), bourse, "init")
			cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(t.TempDir(), "none"), "GORACE=atexit_sleep_ms=0")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			defer stuck.Stop()
			var shown strings.Builder
			for i, answer := range answers {
				if err := readUntil(keyboard, &shown, i+1); err != nil {
					t.Fatalf("%v:\n%s", err, &shown)
				}
				if _, err := keyboard.WriteString(answer); err != nil {
					t.Fatal(err)
				}
			}
			err := <-ended
			_ = screen.Close()
			_ = readUntil(keyboard, &shown, 100)
			failed, _ := errors.AsType[*exec.ExitError](err)
			if failed == nil || !failed.Exited() || failed.ExitCode() != 2 || !strings.Contains(shown.String(), "nothing was changed") ||
				strings.Count(shown.String(), "? ") != len(answers) {
				t.Errorf("it ended with %v:\n%s", err, &shown)
			}
		})
	}
}

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keyboard, screen
}

// readUntil reads what a terminal shows until that has so many questions.
func readUntil(keyboard *os.File, shown *strings.Builder, questions int) error {
	for data := make([]byte, 4096); strings.Count(shown.String(), "? ") < questions; {
		n, err := keyboard.Read(data)
		if shown.Write(data[:n]); err != nil {
			return err
		}
	}
	return nil
}
