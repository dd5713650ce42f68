package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flags whose value is a file or a folder. A shell completes those, and no other value, with the names of files.
var pathFlags = []string{"broker-cert-path", "broker-kubeconfig", "dir", "endorsement", "file", "identity-dir", "key",
	"kubeconfig", "legacy-ca", "operator-cert", "socket", "tls-cert-dir", "token-file"}

// Every command completes its arguments and flags, or offers nothing. It offers the names of files
// only for files.
func TestCompletion(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // where nothing listens
	t.Setenv("BOURSE_SERVER", "")
	var found []string
	var all func(*cobra.Command)
	all = func(c *cobra.Command) {
		path := append([]string{"__complete"}, strings.Fields(c.CommandPath())[1:]...)
		if directive := completes(t, append(path, "")...); !c.HasSubCommands() && (directive == ":0") != takesFile(c) {
			t.Errorf("%s completes an argument with directive %s", c.CommandPath(), directive)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			if completes(t, append(path, "--"+f.Name, "")...) == ":0" && !slices.Contains(found, f.Name) {
				found = append(found, f.Name)
			}
		})
		for _, child := range c.Commands() {
			all(child)
		}
	}
	all(Root(&bytes.Buffer{}, &bytes.Buffer{}))
	slices.Sort(found)
	if !slices.Equal(found, pathFlags) {
		t.Errorf("file names complete %q, want %q", found, pathFlags)
	}
}

// completes returns the directive that ends a completion: ":4" is no file names, ":0" file names.
func completes(t *testing.T, args ...string) string {
	t.Helper()
	var out, progress bytes.Buffer
	if code := Main(args, &out, &progress); code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, progress.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}
