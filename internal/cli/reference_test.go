package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/bourse-dev/bourse/api"
)

var update = flag.Bool("update", false, "write docs/reference")

// exitCodes describes the exit codes, from the table of errors.
func exitCodes() string {
	meanings := map[int]string{
		1: "an internal error, or one of the operating system", 2: "bad input: a flag, an argument or a field is wrong", 3: "not allowed",
		4: "not found", 5: "the state or the capacity does not permit it; `bourse doctor`: there is an Error", 6: "not available now: try again",
	}
	text := "## Exit codes\n\nErrors begin with a code. The exit code follows from it.\n\n- 0: success\n"
	for exit := 1; exit <= len(meanings); exit++ {
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(api.Codes)) {
			if api.Codes[code].Exit == exit {
				codes = append(codes, string(code))
			}
		}
		text += fmt.Sprintf("- %d: %s (%s)\n", exit, meanings[exit], strings.Join(codes, ", "))
	}
	return text +
		"\n## Output\n\nResults are on standard output, everything else on standard error. With `-o json` and `-o yaml`, a list is an array of\n" +
		"objects with `id`, `revision` and `payload`. [openapi.yaml](../openapi.yaml) and [openapi-agent.yaml](../openapi-agent.yaml)\n" +
		"describe each payload. `card`, `assignment`, `acceptance`, `offer` and `end` in it are signed documents (JWS). `status`,\n" +
		"`doctor`, `audit` and `why` print one object.\n\n"
}

// The reference of the commands in docs/reference is what their --help says.
func TestReference(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/UID")
	t.Setenv("BOURSE_SERVER", "")
	var page bytes.Buffer
	page.WriteString("# The command line\n\nGenerated from `--help` by `make generate`.\n\n")
	page.WriteString(exitCodes())
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
