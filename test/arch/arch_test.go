// Package arch holds the code to what ARCHITECTURE.md says of its structure.
package arch

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/bourse-dev/bourse/"

// layers are the parts from the ground up: a part imports only parts of earlier lines.
var layers = [][]string{
	{"api", "config", "charts"},
	{"internal/money", "internal/amounts", "internal/decoded", "internal/payload", "internal/debounce", "internal/turns",
		"internal/fairshare", "internal/act", "internal/liqoprotocol"},
	{"internal/kubeobject", "internal/due"},
	{"internal/market", "internal/identity", "internal/journal", "internal/health", "client"},
	{"internal/match", "internal/exchange", "client/cluster"},
	{"internal/trust", "internal/transport", "internal/inventory",
		"internal/instruction", "internal/liqo", "internal/queue"},
	{"internal/contract", "internal/explain", "internal/compat/certificate", "internal/compat/objects", "internal/vnp",
		"internal/agent/federation/session"},
	{"internal/server", "internal/agent/provider/gate", "internal/agent/consumer/requests", "internal/agent/provider/sharing"},
	{"internal/compat"},
	{"internal/agent", "internal/broker"},
	{"internal/sim", "internal/ui"},
	{"internal/cli"},
	{"cmd/bourse", "docs/examples"},
	{"test"},
}

type pkg struct {
	ImportPath, Dir           string
	Imports                   []string
	GoFiles                   []string
	TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layer is the line of a package, and the smallest part it belongs to; -1 for one that is not of ours.
func layer(path string) (at int, found string) {
	path, ours := strings.CutPrefix(path, module)
	if !ours {
		return -1, ""
	}
	at = len(layers)
	for i, line := range layers {
		for _, part := range line {
			if (path == part || strings.HasPrefix(path, part+"/")) && len(part) > len(found) {
				at, found = i, part
			}
		}
	}
	return at, cmp.Or(found, path)
}

// forTests says that a package of ours only serves tests, such as a conformance suite.
func forTests(path string) bool {
	return strings.HasPrefix(path, module) && strings.HasSuffix(path, "test")
}

func TestEachPartImportsOnlyWhatStandsBelowIt(t *testing.T) {
	for _, p := range packages(t) {
		at, part := layer(p.ImportPath)
		if at == len(layers) {
			t.Errorf("%s is in no layer: say where it stands, here and in ARCHITECTURE.md", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if forTests(p.ImportPath) || at == len(layers)-1 {
				continue
			}
			if forTests(imported) {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, imported)
			}
			if below, other := layer(imported); below > at || below == at && other != part {
				t.Errorf("%s imports %s, which does not stand below it", p.ImportPath, imported)
			}
		}
	}
}

// The market, and what decides, may use no clock, network, disk or goroutine of their own.
func TestTheMarketIsPure(t *testing.T) {
	forbidden := []string{"os", "net", "net/http", "sync", "math/rand",
		"math/rand/v2", "crypto/rand", "log/slog", "context", "database/sql"}
	for _, p := range packages(t) {
		if p.ImportPath != module+"internal/market" {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(forbidden, imported) {
				t.Errorf("internal/market imports %s", imported)
			}
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"time.Now(", "time.Since(", "float64", "float32", "\tgo "} {
				if strings.Contains(string(text), call) {
					t.Errorf("internal/market/%s says %q", file, call)
				}
			}
		}
	}
}

// A newcomer can start from the doc comment of any package.
func TestEachPackageIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		said := false
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file),
				nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			said = said || f.Doc != nil && len(new(doc.Package).Synopsis(f.Doc.Text())) > 20
		}
		if !said {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// Files are of one idea, and no package is a drawer for helpers.
func TestFilesStaySmall(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return fs.SkipDir
		}
		for _, drawer := range []string{"util", "utils", "helper", "helpers", "common"} {
			if d.IsDir() && d.Name() == drawer {
				t.Errorf("%s: name the package after its idea", path)
			}
		}
		if !strings.HasSuffix(path, ".go") || strings.HasPrefix(d.Name(), "zz_generated") ||
			strings.HasSuffix(path, "_templ.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if lines := strings.Count(string(text), "\n"); lines > 500 {
			t.Errorf("%s has %d lines: which ideas are in it?", path, lines)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Liqo is touched in one place, so that a new version of it is met in one place.
func TestOnlyOnePartKnowsLiqo(t *testing.T) {
	for _, p := range packages(t) {
		_, part := layer(p.ImportPath)
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "github.com/liqotech/") && part != "internal/liqo" && part != "test" {
				t.Errorf("%s imports %s: only internal/liqo does", p.ImportPath, imported)
			}
		}
	}
}
