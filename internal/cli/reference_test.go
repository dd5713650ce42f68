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
	"github.com/spf13/pflag"

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
		"objects with `id`, `revision` and `payload`. [openapi.yaml](../openapi.yaml) and\n" +
		"[openapi-agent.yaml](../openapi-agent.yaml) describe each payload. `card`, `assignment`, `acceptance`, `offer` and\n" +
		"`end` in it are signed documents (JWS). Only\n" +
		"`contracts` prints them; elsewhere add `--show-documents`. `status`, `doctor`, `audit` and `why` print one object.\n\n" +
		"`reserve`, `buy`, `confirm`, `resize` and `extend` print the ID of the reservation. With `-o json` they print the\n" +
		"ResourceRequest: its `id` is NAMESPACE/NAME, and `payload.status.reservation` is the ID of the reservation.\n\n" +
		"`-o jsonpath=PATH` and `-o custom-columns=TITLE:PATH,...` take paths as kubectl does. A list has no `items`:\n\n" +
		"    bourse reservations -o jsonpath='{range [*]}{.id}{\"\\t\"}{.payload.state}{\"\\n\"}{end}'\n" +
		"    bourse reservations -o custom-columns=ID:.id,CPU:.payload.resources.cpu\n\n"
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
		var text bytes.Buffer
		link := func(file string) string { return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-") }
		if err := doc.GenMarkdownCustom(c, &text, link); err != nil {
			t.Fatal(err)
		}
		whole := text.String()
		for _, flags := range []*pflag.FlagSet{c.NonInheritedFlags(), c.InheritedFlags()} {
			if long := flags.FlagUsages(); long != "" {
				whole = strings.Replace(whole, long, flags.FlagUsagesWrapped(100), 1)
			}
		}
		page.WriteString(whole)
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
