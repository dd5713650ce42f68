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

// Each kind says what it is, and the reference says all of them.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Problems\n\nWhat `bourse doctor`, the condition `Healthy` of the Advertisement `cluster` and the metric `bourse_agent_problems` tell of.\n" +
		"Each comes with what has it and the exact fix. Generated from `internal/health`.\n\n| code | severity | meaning |\n|---|---|---|\n")
	seen := map[string]bool{}
	for _, k := range health.Kinds {
		if seen[k.Code] || k.Code == "" || k.Severity == "" || !strings.HasSuffix(k.Meaning, ".") {
			t.Errorf("%+v", k)
		}
		seen[k.Code] = true
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Code, k.Severity, k.Meaning)
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

func TestSort(t *testing.T) {
	all := []api.Problem{health.MixedPeering.Of("b", "", ""), health.ClockSkew.Of("", "", ""), health.LiqoWebhookDown.Of("", "", ""), health.MixedPeering.Of("a", "", "")}
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
