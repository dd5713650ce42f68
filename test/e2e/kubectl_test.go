package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// kubectl works on the simulated clusters of bourse demo, for an admin and for a user of one namespace. The test in
// conformance_test.go proves that they answer as a real API server does.
func TestKubectlOnTheDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	bin := t.TempDir()
	bourse, err := federation.Build(t.Context(), bin)
	if err == nil {
		err = os.Symlink(bourse, filepath.Join(bin, "kubectl-bourse"))
	}
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-trimpath", "-o", bin, examples+"/ask").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// This one expects another key than that of the agent.
	script, err := os.ReadFile(filepath.Join(examples, "ask.sh"))
	if err != nil {
		t.Fatal(err)
	}
	another := filepath.Join(t.TempDir(), "ask.sh")
	if err := os.WriteFile(another, bytes.Replace(script, []byte("serverKey | awk"), []byte("serverKey | tr 0-9 1-90 | awk"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl, err := lab.Kubectl(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/kubectl.txt"},
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"until": until},
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", strings.Join([]string{bin, filepath.Dir(kubectl), os.Getenv("PATH")}, string(os.PathListSeparator)))
			e.Setenv("XDG_RUNTIME_DIR", e.WorkDir)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("EXAMPLES", examples)
			e.Setenv("ANOTHER", another)
			return nil
		},
	})
}

// until PATTERN PROGRAM ARGS... runs a program again and again until it succeeds and writes what matches.
func until(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[0])
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("never: %s", args[0])
		}
	}
}
