package robustness

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	// all that the binary is made of: no cached result outlives a change of it
	_ "github.com/bourse-dev/bourse/internal/cli"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(agentVariable) != "" {
		os.Exit(runAgent())
	}
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "skipped: these tests run the real binary, and take a minute")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bourse-robustness-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "bourse")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/bourse")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	err = goleak.Find()
	for end := time.Now().Add(patience); err != nil && code == 0 && time.Now().Before(end); {
		err = goleak.Find() // it waits half a second for what is ending, and a slow machine takes longer
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
