package instruction_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/instruction"
)

// A reservation shows the use of the namespaces that its request names. Of all others it shows the sum, and no name:
// they are other tenants'.
func TestOtherTenantsAreNotNamed(t *testing.T) {
	cpu := func(n string) api.Resources { return api.Resources{"cpu": resource.MustParse(n)} }
	naming := map[string]int{"team-a": 1, "both": 2, "team-b": 1}
	own := map[string]bool{"team-a": true, "both": true}
	use := instruction.Use{
		SharedBy:   2,
		Namespaces: map[string]api.Resources{"team-a": cpu("1"), "both": cpu("2"), "team-b": cpu("3"), "nobodys": cpu("500m")},
		Naming:     func(namespace string) (int, bool) { return naming[namespace], own[namespace] },
	}
	size := amounts.Clamp(cpu("4"))
	s := use.Status(size)
	want := []api.NamespaceUse{{Name: "both", Used: cpu("2"), Shared: true}, {Name: "team-a", Used: cpu("1")}}
	if diff := cmp.Diff(want, s.Namespaces); diff != "" {
		t.Error(diff)
	}
	if others := s.Others.Cpu(); others.String() != "3500m" {
		t.Errorf("others use %s", others)
	}
	delete(use.Namespaces, "team-b")
	delete(use.Namespaces, "nobodys")
	if s := use.Status(size); s.Others != nil {
		t.Errorf("no other namespace uses %v", s.Others)
	}
}
