package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	mostPaths = 25 // the cyclomatic complexity of a function, as gocyclo counts it
	mostLines = 80 // of a function
)

// exceptions are the functions that may exceed mostPaths or mostLines. The list may only shrink.
var exceptions = map[string]string{
	"requests.Controller.reconcile": "both halves of a reservation become pure decisions",
	"requests.Borrower.signHold":    "likewise",
	"gate.Gate.admit":               "likewise",
	"server.local.routes":           "the agent answers a namespace by the Kubernetes API",
}

// A reader follows each function without a map. Tests are not counted: their tables and stories are long.
func TestFunctionsStaySmall(t *testing.T) {
	found := map[string]string{} // what is wrong with a function
	paths := exec.Command("go", "tool", "-modfile=tools/lint/go.mod", "gocyclo", "-over", fmt.Sprint(mostPaths),
		"-ignore", `_test\.go$|zz_generated|_templ\.go$`, "api", "client", "cmd", "internal")
	paths.Dir = "../.."
	// gocyclo exits with 1 when it finds a function. Before it starts, go may tell on stderr what it downloads.
	out, err := paths.Output()
	if err != nil && len(out) == 0 {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Log(string(exit.Stderr))
		}
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if m := regexp.MustCompile(`^(\d+) (\S+) (\S+) `).FindStringSubmatch(line); m != nil {
			found[m[2]+"."+strings.NewReplacer("(", "", "*", "", ")", "").Replace(m[3])] = m[1] + " paths"
		}
	}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, module+"test") {
			continue
		}
		for _, file := range p.GoFiles {
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || ast.IsGenerated(parsed) {
					continue
				}
				if lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1; lines > mostLines {
					found[parsed.Name.Name+"."+declared(f)] += fmt.Sprintf(" %d lines", lines)
				}
			}
		}
	}
	for f, what := range found {
		if _, ok := exceptions[f]; !ok {
			t.Errorf("%s has %s: at most %d paths and %d lines. Which decisions are in it?", f, what, mostPaths, mostLines)
		}
	}
	for f := range exceptions {
		if _, ok := found[f]; !ok {
			t.Errorf("%s is small enough: remove it from the exceptions", f)
		}
	}
}
