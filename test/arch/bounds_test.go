package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a package of this repository, with names of constants, variables or tests in it.
var named = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*)`: ([A-Za-z]\\w*(?:, [A-Za-z]\\w*)*)")

// docs/bounds.md names constants and tests that exist, and at least one test in each row.
func TestBoundsThatAreNamedExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 5 || cells[4] == "test |" {
			continue
		}
		rows++
		for _, problem := range wrongNames(t, cells[2], cells[4]) {
			t.Errorf("docs/bounds.md: %q has %s", strings.TrimPrefix(cells[0], "| ")+": "+cells[1], problem)
		}
	}
	if rows < 20 {
		t.Errorf("docs/bounds.md has %d rows", rows)
	}
	wrong := wrongNames(t, "(`internal/trust`: maxText, maxNothing)", "`internal/trust`: TestNothing")
	if got := strings.Join(wrong, "; "); got != "no maxNothing in internal/trust; no TestNothing in internal/trust" {
		t.Errorf("of two wrong names are reported: %s", got)
	}
}

// wrongNames returns what is wrong with the cells of a row that name bounds and tests.
func wrongNames(t *testing.T, bounds, tests string) (wrong []string) {
	t.Helper()
	found := named.FindAllStringSubmatch(tests, -1)
	if len(found) == 0 {
		wrong = append(wrong, "no test")
	}
	for i, match := range append(named.FindAllStringSubmatch(bounds, -1), found...) {
		isTest := i >= len(named.FindAllStringSubmatch(bounds, -1))
		declared := declarations(t, filepath.Join("../..", match[1]), isTest)
		for _, name := range strings.Split(match[2], ", ") {
			if !declared[name] {
				wrong = append(wrong, "no "+name+" in "+match[1])
			}
		}
	}
	return wrong
}

// declarations returns the constants and variables of the packages in a folder, or the functions of its tests.
func declarations(t *testing.T, dir string, tests bool) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range file.Decls {
			switch is := one.(type) {
			case *ast.FuncDecl:
				declared[is.Name.Name] = tests
			case *ast.GenDecl:
				for _, spec := range is.Specs {
					if values, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range values.Names {
							declared[name.Name] = !tests
						}
					}
				}
			}
		}
	}
	return declared
}
