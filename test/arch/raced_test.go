package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The race detector makes tests several times as slow, and finds nothing in code that one goroutine runs. So
// test/raced/packages lists the packages that share memory between goroutines, or whose tests do.
func TestWhatGoroutinesShareIsRaced(t *testing.T) {
	listed := lines(t, "../raced/packages")
	known := map[string]bool{}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if layer, _ := layer(p.ImportPath); layer >= len(layers)-1 || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		known[path] = true
		why := ""
		for _, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if what := sharing(parsed, strings.HasSuffix(file, "_test.go")); what != "" {
				why = file + " has " + what
			}
		}
		switch in := slices.Contains(listed, path); {
		case why != "" && !in:
			t.Errorf("%s: %s: add the package to test/raced/packages", path, why)
		case why == "" && in:
			t.Errorf("%s shares nothing between goroutines: remove it from test/raced/packages", path)
		}
	}
	for _, path := range listed {
		if !known[path] {
			t.Errorf("test/raced/packages lists %s, which has no tests beside the code", path)
		}
	}
}

// sharing names what a file shares memory with: goroutines, channels, locks, atomic values. Of a test only what
// starts goroutines counts. It is empty for a file that shares nothing.
func sharing(f *ast.File, test bool) (what string) {
	for _, spec := range f.Imports {
		switch path := strings.Trim(spec.Path.Value, `"`); {
		case strings.HasPrefix(path, "golang.org/x/sync/"), path == "testing/synctest", path == "sync/atomic" && !test:
			what = path
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "a go statement"
		case *ast.ChanType:
			if !test {
				what = "a channel"
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "sync" && !strings.HasPrefix(n.Sel.Name, "Once") &&
				(!test || n.Sel.Name == "WaitGroup") {
				what = "sync." + n.Sel.Name
			}
		}
		return true
	})
	return what
}

// A package that no suite of test/suites lists would be tested nowhere. In two suites it would cost its time twice.
func TestEachPackageIsInASuite(t *testing.T) {
	suites := map[string][]string{} // by package
	for _, line := range lines(t, "../suites") {
		name, test := strings.CutPrefix(strings.Fields(line)[0], "test-")
		if !test {
			continue
		}
		list := exec.Command("make", "--silent", "--no-print-directory", "packages-of-"+name)
		list.Dir = "../.."
		out, err := list.Output()
		if err != nil {
			t.Fatalf("make packages-of-%s: %v", name, err)
		}
		for _, path := range strings.Fields(string(out)) {
			suites[path] = append(suites[path], name)
		}
	}
	for _, p := range packages(t) {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 || p.ImportPath == module+"test/real" { // by hand: CONTRIBUTING
			continue
		}
		if in := suites[p.ImportPath]; len(in) != 1 {
			t.Errorf("%s is in the suites %q: it belongs into one", p.ImportPath, in)
		}
	}
}

// lines reads a list that has one entry a line, and comments that begin with #.
func lines(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// `make test-plain` runs what the race detector leaves out. It finds those tests in the source, so each calls
// raced.Skip itself: what a helper leaves out would run nowhere.
func TestEachTestLeavesItselfOut(t *testing.T) {
	found := 0
	for _, root := range []string{"../../client", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			function := ""
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "func ") {
					function = line
				}
				if !strings.Contains(line, "raced.Skip") {
					continue
				}
				found++
				if strings.TrimSpace(line) != "raced.Skip(t)" || !strings.HasPrefix(function, "func Test") ||
					!strings.HasSuffix(path, "_test.go") {
					t.Errorf("%s: %q is not in a test: %s", path, strings.TrimSpace(line), function)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("no test calls raced.Skip")
	}
}
