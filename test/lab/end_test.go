package lab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bourse-dev/bourse/test/lab"
	"go.uber.org/goleak"
)

// supervisor names a lab's folder, and makes this test binary a program that runs a cluster there
// until it is killed.
const supervisor = "LAB_TEST_SUPERVISOR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(supervisor); dir != "" {
		supervise(dir)
	}
	goleak.VerifyTestMain(m)
}

func supervise(dir string) {
	l, err := lab.Start(context.Background(), lab.Options{Dir: dir})
	if err == nil {
		_, err = l.Cluster(context.Background(), lab.ClusterOptions{Name: "rome", Light: true})
	}
	fmt.Println("started:", err)
	select {}
}

func TestStopLeavesNothing(t *testing.T) {
	l := startLab(t)
	if _, err := l.Cluster(t.Context(), lab.ClusterOptions{Name: "rome", Light: true}); err != nil {
		t.Fatal(err)
	}
	running := processesIn(t, l.Dir())
	if len(running) != 2 {
		t.Fatalf("processes %v run for a light cluster, want 2", running)
	}
	if err := syscall.Kill(running[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-l.Done()
	if err := l.Err(); !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("a killed daemon is reported as %q", err)
	}
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := processesIn(t, l.Dir()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if _, err := os.Stat(l.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lab's folder is left: %v", err)
	}
	if _, err := l.Cluster(t.Context(), lab.ClusterOptions{Name: "milan"}); err == nil {
		t.Error("a stopped lab started a cluster")
	}
}

func TestClusterThatCannotStart(t *testing.T) {
	l := startLab(t)
	_, err := l.Cluster(t.Context(), lab.ClusterOptions{
		Name: "rome", Light: true, Flags: map[lab.Daemon][]string{lab.APIServer: {"--no-such-flag"}},
	})
	for _, want := range []string{`cluster "rome"`, "kube-apiserver", "exit status 1", "unknown flag: --no-such-flag"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if left := processesIn(t, l.Dir()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// startLab is a lab in which daemons may crash, unlike that of lab.Test.
func startLab(t *testing.T) *lab.Lab {
	if testing.Short() {
		t.Skip("starts a Kubernetes cluster")
	}
	l, err := lab.Start(t.Context(), lab.Options{Dir: filepath.Join(t.TempDir(), "lab"), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Stop() })
	return l
}

func TestDaemonsEndWithTheirSupervisor(t *testing.T) {
	startLab(t) // so that the binaries are there
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), supervisor+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || said != "started: <nil>\n" {
		t.Errorf("supervisor says %q (%v)", said, err)
	}
	if got := len(processesIn(t, dir)); got != 2 {
		t.Errorf("%d processes run for a light cluster, want 2", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the daemons are gone", func() bool { return len(processesIn(t, dir)) == 0 })
}

// processesIn are the IDs of the processes that run in a folder or below. A zombie runs nowhere.
func processesIn(t *testing.T, dir string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("looks for processes in /proc")
	}
	var found []int
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err == nil && strings.HasPrefix(cwd, dir+"/") {
			found = append(found, id)
		}
	}
	return found
}
