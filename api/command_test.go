package api_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A shell makes of a command's text the arguments that it was made of.
func TestCommandsAreQuoted(t *testing.T) {
	for _, argv := range [][]string{
		{"bourse", "catalog", "--seller", "milan"}, {"printf", "", "it's", "a b", "$HOME", "`id`", "*", "a\nb", "~", "é", `\`, "#"},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+api.Command(argv).String()).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, argv) {
			t.Errorf("%q becomes %q: %v", argv, got, err)
		}
	}
	e := api.Errorf(api.CodeNotFound, "no offer").FixBy("see", "bourse", "catalog", "a b")
	if e.Remedy != "see: bourse catalog 'a b'" || len(e.Argv) != 3 {
		t.Errorf("the remedy is %q, %q", e.Remedy, e.Argv)
	}
	if p := (api.Problem{}).By("", "bourse", "doctor"); p.Remedy != "bourse doctor" || len(p.Argv) != 2 {
		t.Errorf("the remedy is %q, %q", p.Remedy, p.Argv)
	}
}
