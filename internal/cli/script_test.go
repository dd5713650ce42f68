package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/raced"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bourse": func() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) }})
}

// The command line as a user meets it: each file in testdata/script is a session.
func TestScript(t *testing.T) {
	logKubernetes(slog.New(slog.DiscardHandler)) // of the federations that are played
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits, "becomes": becomes, "until": untilMatch, "narrow": narrow, "keep": keep, "empty": empty, "private": private, "damage": damage,
		"contract": contractOf,
		// join NAME TOKEN lets a cluster join.
		"join": func(ts *testscript.TestScript, _ bool, args []string) {
			_, err := member.Join(t, args[0], args[1], time.Now())
			ts.Check(err)
		},
	}
	maps.Copy(commands, federationCommands)
	path := os.Getenv("PATH")
	if raced.Detector {
		path = withoutDetector(t) + string(os.PathListSeparator) + path
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: commands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_RUNTIME_DIR", e.WorkDir+"/run")
			e.Setenv("PATH", path)
			e.Setenv("ADDRESS", freeAddress())
			e.Setenv("DOCS", documentation())
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each of 400 programs waits a second before it ends
			e.Values["federation"] = &played{}
			return os.Mkdir(e.WorkDir+"/run", 0o700)
		},
	})
}

// withoutDetector is a folder with a bourse whose brokers and demos run with the race detector, and whose other
// commands run without it: their one goroutine is done in milliseconds, and the detector starts for three times as
// long. The scripts run about 700 of them.
func withoutDetector(t *testing.T) string {
	t.Helper()
	examined, err := exec.LookPath("bourse")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain", "bourse")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", plain, "../../cmd/bourse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	chooses := fmt.Sprintf(`#!/bin/sh
case "$1 $2" in demo* | "broker --"*) exec %q "$@" ;; esac
exec %q "$@"
`, examined, plain)
	if err := os.WriteFile(filepath.Join(dir, "bourse"), []byte(chooses), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startEvery is how often a script that waits starts a program: each start takes a tenth of a second of a core.
const startEvery = 250 * time.Millisecond

// freeAddress is one that no outgoing connection can have.
func freeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

// exits CODE PROGRAM ARGS... runs a program that must end with this exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if want, got := args[0], exitCode(ts, args[1:]); got != want {
		ts.Fatalf("exit code %s, want %s", got, want)
	}
	checkCodes(ts)
}

// becomes CODE PROGRAM ARGS... runs a program again and again until it ends with this exit code.
func becomes(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(90 * time.Second); exitCode(ts, args[1:]) != args[0]; time.Sleep(startEvery) {
		if time.Now().After(deadline) {
			ts.Fatalf("never: exit code %s", args[0])
		}
	}
}

func exitCode(ts *testscript.TestScript, args []string) string {
	err := ts.Exec(args[0], args[1:]...)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return strconv.Itoa(ended.ExitCode())
	}
	ts.Check(err)
	return "0"
}

// checkCodes demands that no line of the last program's errors has a code twice.
func checkCodes(ts *testscript.TestScript) {
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		for code := range api.Codes {
			if strings.Count(line, string(code)+": ") > 1 {
				ts.Fatalf("%s is there twice: %s", code, line)
			}
		}
	}
}

// until PATTERN PROGRAM ARGS... runs a program again and again until it succeeds and writes what
// matches; with ! until it writes what does not.
func untilMatch(ts *testscript.TestScript, not bool, args []string) {
	pattern := regexp.MustCompile(args[0])
	deadline := time.Now().Add(90 * time.Second) // an agent waits longer and longer for its broker
	for ts.Exec(args[1], args[2:]...) != nil || pattern.MatchString(ts.ReadFile("stdout")) == not {
		if time.Now().After(deadline) {
			ts.Fatalf("never: %s", args[0])
		}
		time.Sleep(startEvery)
	}
}

// keep NAME puts what the last program wrote into the environment.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// contract RESERVATION FILE writes a contract into a file. The last program wrote it, with others, as JSON.
func contractOf(ts *testscript.TestScript, _ bool, args []string) {
	var deals []api.Envelope[api.Deal]
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &deals))
	i := slices.IndexFunc(deals, func(d api.Envelope[api.Deal]) bool { return d.Payload.Spec.Reservation == args[0] })
	if i < 0 {
		ts.Fatalf("no contract %s", args[0])
	}
	data, err := yaml.Marshal(api.Contract{Spec: deals[i].Payload.Spec})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o600))
}

// empty DIR... demands that nothing is in a folder.
func empty(ts *testscript.TestScript, _ bool, args []string) {
	for _, dir := range args {
		entries, err := os.ReadDir(ts.MkAbs(dir))
		ts.Check(err)
		if len(entries) > 0 {
			ts.Fatalf("%s contains %v", dir, entries)
		}
	}
}

// narrow demands that what the last program wrote fits into 80 columns.
func narrow(ts *testscript.TestScript, _ bool, _ []string) {
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 80 {
			ts.Fatalf("a line has %d columns: %s", n, line)
		}
	}
}

// private FILE... demands that only their owner can read files.
func private(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		info, err := os.Stat(ts.MkAbs(file))
		ts.Check(err)
		if info.Mode() != 0o600 {
			ts.Fatalf("the mode of %s is %v, want 0600", file, info.Mode())
		}
	}
}

// damage FILE COPY makes a copy of a file that lacks its end.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	whole := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(whole[:len(whole)-1]), 0o600))
}

// Each command explains itself, on standard output.
func TestHelp(t *testing.T) {
	var all func(*cobra.Command)
	all = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		var out, progress bytes.Buffer
		if code := Main(append(path, "--help"), &out, &progress); code != 0 || progress.Len() > 0 {
			t.Errorf("%s --help: exit code %d: %s", c.CommandPath(), code, progress.String())
		}
		for _, want := range []string{c.UseLine(), "--help", c.Short} {
			if !strings.Contains(out.String(), want) && !(want == c.Short && c.Long != "") {
				t.Errorf("%s --help does not say %q:\n%s", c.CommandPath(), want, out.String())
			}
		}
		for _, wrong := range []string{"(default [])", "(default )", "`"} {
			if _, flags, _ := strings.Cut(out.String(), "Flags:"); strings.Contains(flags, wrong) {
				t.Errorf("%s --help has %s", c.CommandPath(), wrong)
			}
		}
		for _, child := range c.Commands() {
			all(child)
		}
	}
	all(Root(&bytes.Buffer{}, &bytes.Buffer{}))
}
