package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
