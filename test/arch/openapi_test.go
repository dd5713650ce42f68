package arch

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// A generator of clients reads the committed descriptions of the APIs, and the Go types that it makes of them compile.
func TestClientsAreGeneratedFromTheDescriptions(t *testing.T) {
	for _, described := range []string{"docs/openapi.yaml", "docs/openapi-agent.yaml"} {
		made := filepath.Join(t.TempDir(), "made.go")
		for _, args := range [][]string{
			{"tool", "-modfile=tools/openapi/go.mod", "oapi-codegen", "-generate", "types", "-package", "made", "-o", made, described},
			{"build", made},
		} {
			run := exec.Command("go", args...)
			run.Dir = "../.."
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%s: go %s: %v\n%s", described, args[0], err, out)
				break
			}
		}
	}
}
