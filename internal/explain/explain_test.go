package explain_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
)

var update = flag.Bool("update", false, "write the golden parts")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// asked is what a file of testdata/stages has of a request.
type asked struct {
	Request      api.ResourceRequest          `json:"request"`
	Instructions []api.ReservationInstruction `json:"instructions"`
	Reservation  *api.Reservation             `json:"reservation"`
	Peerings     []api.Peering                `json:"peerings"`
	Events       []explain.Event              `json:"events"`
}

// Each file shows a request at one point of its life, and what is said about it.
func TestStages(t *testing.T) {
	golden(t, "testdata/stages", func(t *testing.T, input []byte) string {
		var in asked
		if err := yaml.UnmarshalStrict(input, &in); err != nil {
			t.Fatal(err)
		}
		a := explain.Asked{Request: in.Request.Envelope().Payload, Instructions: in.Instructions,
			Reservation: in.Reservation, Peerings: in.Peerings, Events: in.Events}
		var out strings.Builder
		word, why := explain.Request(in.Request.Status)
		fmt.Fprintf(&out, "%s: %s\n", word, why)
		stages := explain.Stages(a, now)
		for _, s := range stages {
			at := "        "
			if !s.At.IsZero() {
				at = s.At.UTC().Format(time.TimeOnly)
			}
			fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%-10s  %-11s  %s  %s", s.Name, s.Progress, at, s.Text)))
		}
		fmt.Fprintln(&out, "at", explain.StageAt(stages).Name)
		return out.String()
	})
}

func TestDecision(t *testing.T) {
	golden(t, "testdata/decision", func(t *testing.T, input []byte) string {
		var d api.Decision
		if err := yaml.UnmarshalStrict(input, &d); err != nil {
			t.Fatal(err)
		}
		w := explain.Decision(d, api.Resources{"cpu": resource.MustParse("2")})
		left := w.Considered
		for _, f := range w.Falls {
			if left -= f.Removed; left != f.Left {
				t.Errorf("after %q %d are left, not %d", f.Text, f.Left, left)
			}
		}
		if left != w.Qualify {
			t.Errorf("%d qualify, and %d are left", w.Qualify, left)
		}
		return strings.Join(w.Lines(), "\n") + "\n"
	})
}

// golden compares what a function makes of input.yaml of each file of a folder with its part output.
func golden(t *testing.T, folder string, of func(*testing.T, []byte) string) {
	files, err := filepath.Glob(folder + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no file in ", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(of(t, a.Files[0].Data))
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "output", Data: got})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(a.Files) < 2 || !bytes.Equal(a.Files[1].Data, got) {
				t.Errorf("it is now\n%s", got)
			}
		})
	}
}

// What would end names the namespaces of the request, and counts others.
func TestImpact(t *testing.T) {
	cpu := func(text string) api.Resources { return api.Resources{"cpu": resource.MustParse(text)} }
	var i api.ReservationInstruction
	i.Spec = api.Instruction{Provider: "milan", Reservation: "r-1", Resources: cpu("4")}
	i.Status.Namespaces = []api.NamespaceUse{{Name: "team", Used: cpu("2")}, {Name: "idle"}}
	i.Status.Others = cpu("1")
	volumes := api.Impact{Volumes: &api.Volumes{Count: 3, Claims: []string{"team/data"}},
		Pods: &api.Pods{Count: 2, Names: []string{"team/web-1"}}}
	got := strings.Join(explain.Impact("team/web", volumes, []api.ReservationInstruction{i}), "\n")
	want := "team/web: at milan, reservation r-1 of cpu=4 would end\n  pods of team use cpu=2 there\n" +
		"  pods of other namespaces use cpu=1 there\n" +
		"  on its virtual nodes: 2 pods (team/web-1 and 1 more)\n  3 volumes (team/data and 2 more) would be deleted"
	if got != want {
		t.Errorf("it says %s", got)
	}
	if got := explain.Impact("team/web", api.Impact{}, nil); len(got) != 1 || got[0] != "team/web: nothing is bound" {
		t.Errorf("of nothing: %q", got)
	}
}
