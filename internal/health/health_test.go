package health_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

var update = flag.Bool("update", false, "write the reference of problems")

// Each kind has its own code, and whole sentences for meaning, effect and fix. The reference lists
// all of them.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Problems\n\n" + wrap("`bourse doctor` lists the problems of a cluster. The condition `Healthy` of the "+
		"Advertisement `cluster` and the metric `bourse_agent_problems` report them too. Each problem names the object or cluster "+
		"that has it, and the exact fix. Generated from `internal/health`.") + "\n\n" +
		"| severity | means |\n|---|---|\n| Error | Something that you asked for does not work. |\n" +
		"| Warning | Something will not work, or is less safe than it should be. |\n| Info | Worth knowing. |\n\n" +
		"| code | severity | meaning |\n|---|---|---|\n")
	seen := map[string]bool{}
	for _, k := range health.Kinds {
		if seen[k.Code] || k.Code == "" || k.Severity == "" {
			t.Errorf("%+v", k)
		}
		for what, text := range map[string]string{"meaning": k.Meaning, "effect": k.Effect, "fix": k.Fix} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s is no sentence: %q", k.Code, what, text)
			}
		}
		seen[k.Code] = true
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Code, k.Severity, k.Meaning)
	}
	for _, k := range health.Kinds {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n- **Severity**: %s\n", k.Code, wrap(k.Meaning), k.Severity)
		fmt.Fprintf(&b, "%s\n%s\n", wrap("- **Effect**: "+k.Effect), wrap("- **Fix**: "+k.Fix))
	}
	const file = "../../docs/reference/problems.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != b.String() {
		t.Errorf("%s is stale (%v): run go test ./internal/health -update", file, err)
	}
}

// wrap breaks a paragraph or list item into lines of at most 100 characters.
func wrap(text string) string {
	var b strings.Builder
	column, indent := 0, ""
	if strings.HasPrefix(text, "- ") {
		indent = "  "
	}
	for i, word := range strings.Split(text, " ") {
		switch {
		case i == 0:
		case column+1+len(word) > 100:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func TestSort(t *testing.T) {
	all := []api.Problem{health.MixedPeering.Of("b", "", ""), health.ClockSkew.Of("", "", ""),
		health.LiqoWebhookDown.Of("", "", ""), health.MixedPeering.Of("a", "", "")}
	health.Sort(all)
	got := ""
	for _, p := range all {
		got += p.Code + p.Subject + " "
	}
	if got != "LiqoWebhookDown ClockSkew MixedPeeringa MixedPeeringb " {
		t.Error(got)
	}
	for n, want := range []api.Severity{"", api.SeverityError, api.SeverityError} {
		if worst := health.Worst(all[:n]); worst != want {
			t.Errorf("the worst of %d is %q", n, worst)
		}
	}
	if worst := health.Worst(all[2:]); worst != api.SeverityInfo {
		t.Errorf("the worst is %q", worst)
	}
}
