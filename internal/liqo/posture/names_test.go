package posture

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
	"github.com/liqotech/liqo/pkg/consts"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// mapsPolicy returns what policy bourse-namespaces decides of the namespaces that a consumer maps, with a
// list of consumers.
func mapsPolicy(t *testing.T) func(consumer string, list, mapping map[string]string) bool {
	t.Helper()
	ours, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	var expressions []string // validations follow variables
	variables := map[string]string{}
	for _, p := range ours.policies {
		if p.Name != "bourse-namespaces" {
			continue
		}
		for _, v := range p.Spec.Variables {
			expressions, variables[v.Expression] = append(expressions, v.Expression), v.Name
		}
		for _, v := range p.Spec.Validations {
			expressions = append(expressions, v.Expression)
		}
	}
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.Strings(), cel.Variable("params", cel.DynType),
		cel.Variable("object", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	programs := make([]cel.Program, len(expressions))
	for i, e := range expressions {
		ast, issues := env.Compile(e)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", e, issues.Err())
		}
		if programs[i], err = env.Program(ast); err != nil {
			t.Fatal(err)
		}
	}
	if len(programs) == len(variables) {
		t.Fatal("the policy has no validation")
	}
	return func(consumer string, list, mapping map[string]string) bool {
		known := map[string]any{}
		in := map[string]any{
			"params": map[string]any{"data": list}, "variables": known,
			"object": map[string]any{
				"metadata": map[string]any{"name": list[consumer+at],
					"labels": map[string]string{consts.ReplicationOriginLabel: consumer}},
				"spec": map[string]any{"desiredMapping": mapping},
			},
			"request": map[string]any{"userInfo": map[string]any{"username": consumer},
				"resource": map[string]any{"resource": "namespacemaps"}},
		}
		for i, e := range expressions {
			out, _, err := programs[i].Eval(in)
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			if name, ok := variables[e]; ok {
				known[name] = out.Value()
			} else if out.Value() != true {
				return false
			}
		}
		return true
	}
}

// Each name that a hub gives the namespaces of its customers is one that the policies of its providers
// let it map, and no other consumer. The guard reads the customer's tenant from it.
func TestProvidersAcceptTheNamesOfAHub(t *testing.T) {
	accepts := mapsPolicy(t)
	id := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?(-agg|-hub)?`)
	rapid.Check(t, func(t *rapid.T) {
		hub := id.Draw(t, "hub") + strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 25, 60}).Draw(t, "more"))
		list := map[string]string{hub: "brokered"}
		for _, other := range rapid.SliceOfN(id, 0, 4).Draw(t, "others") {
			list[other], list[other+"-"+hub] = "brokered", "brokered"
		}
		consumers := slices.Sorted(maps.Keys(list))
		for _, one := range consumers {
			list[one+at] = "milan"
		}
		listOthers(list)
		names, all := &offload.Namespaces{Cluster: hub}, map[string]offload.Customer{}
		tenants := map[string]string{}
		for i, customer := range []string{"rome", "bern", "rome", hub + "-rome"} {
			c, err := names.NewCustomer(customer, all)
			if len(hub) > 41 {
				if err == nil {
					t.Fatalf("%s may be a hub: %s", hub, c.Remote)
				}
				return
			}
			if err != nil || len(validation.IsDNS1123Label(c.Remote)) > 0 {
				t.Fatalf("customer %s of %s: %q, %v", customer, hub, c.Remote, err)
			}
			all[string(rune('a'+i))] = c
			for _, consumer := range consumers {
				if is := accepts(consumer, list, map[string]string{"shop": c.Remote}); is != (consumer == hub) {
					t.Fatalf("%s may map %s of hub %s: %v", consumer, c.Remote, hub, is)
				}
			}
			tenant := liqo.TenantOf(c.Remote, hub)
			if was := tenants[customer]; tenant == "" || was != "" && was != tenant {
				t.Fatalf("customer %s of %s is tenant %q, and was %q", customer, hub, tenant, was)
			}
			tenants[customer] = tenant
		}
		if tenants["rome"] == tenants["bern"] {
			t.Fatalf("two customers are one tenant: %v", tenants)
		}
	})
}
