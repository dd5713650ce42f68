// Package liqotest has what tests need of the tested version of Liqo. Start at [CRDs].
package liqotest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CRDs returns the paths of the tested version's CRDs whose names match a pattern, such as "*.yaml".
func CRDs(t testing.TB, pattern string) []string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/liqotech/liqo").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)),
		"deployments/liqo/charts/liqo-crds/crds", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d CRDs are %s: %v", len(files), pattern, err)
	}
	return files
}
