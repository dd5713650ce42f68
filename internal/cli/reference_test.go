package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write docs/reference")

// The reference of the commands in docs/reference is what their --help says.
func TestReference(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/UID")
	t.Setenv("BOURSE_SERVER", "")
	var page bytes.Buffer
	page.WriteString("# The command line\n\nGenerated from `--help` by `make generate`.\n\n")
	var write func(*cobra.Command)
	write = func(c *cobra.Command) {
		c.DisableAutoGenTag = true
		c.InitDefaultHelpFlag()
		if err := doc.GenMarkdownCustom(c, &page, func(string) string { return "#the-command-line" }); err != nil {
			t.Fatal(err)
		}
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() {
				write(child)
			}
		}
	}
	write(Root(io.Discard, io.Discard))
	const path = "../../docs/reference/cli.md"
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, page.Bytes()) {
		t.Errorf("%s is stale (%v): run make generate", path, err)
	}
}
