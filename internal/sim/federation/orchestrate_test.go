package federation_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// What a consumer enables by /api/toggle decides at which providers its VirtualNodePools reserve more.
func TestTogglesChooseTheProvidersOfAPool(t *testing.T) {
	t.Parallel()
	member := func(name string, nodes int) *federation.Member {
		return &federation.Member{Options: sim.Options{Name: name, Nodes: nodes, CPU: 8, Memory: 32},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	}
	rome := &federation.Member{Options: sim.Options{Name: "rome", Nodes: 1}}
	ctx, stop := context.WithCancel(t.Context())
	f := &fair{t: t}
	f.Federation = must(federation.StartWith(ctx, t.TempDir(), slog.New(slog.DiscardHandler),
		prototypes.Options{Catalog: true, Orchestrator: true}, rome, member("milan", 2), member("paris", 1)))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })
	spec := api.VirtualNodePoolSpec{
		Namespaces: []string{"team"}, Demand: api.DemandFixed,
		Min: api.Resources{"cpu": resource.MustParse("1")}, Max: api.Resources{"cpu": resource.MustParse("4")},
	}
	served := func(by ...string) func() bool {
		return func() bool {
			plan, err := rome.People.PlanVirtualNodePool(ctx, "burst", spec)
			if err != nil {
				return false
			}
			var names []string
			for _, p := range plan.Providers {
				names = append(names, p.Name)
			}
			return len(names) == 1 && slices.Contains(by, names[0])
		}
	}
	f.until("both are visible", func() bool {
		for _, name := range []string{"milan", "paris"} {
			if _, err := rome.People.Cluster(ctx, name); err != nil {
				return false
			}
		}
		return true
	})
	f.until("a provider is planned", served("milan", "paris"))
	old := f.certified(rome)
	call := func(method, path string, into any) {
		t.Helper()
		request := must(http.NewRequestWithContext(ctx, method, f.URL+path, nil))(t)
		answer := must(old.Do(request))(t)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s", method, path, answer.Status)
		}
		if into != nil {
			if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"paris", "milan"} {
		call("DELETE", "/api/toggle", nil)
		call("GET", "/api/toggle?id="+name+"&enable=true", nil)
		f.until("only "+name+" is planned", served(name))
		var shown []struct {
			Metadata struct{ Name string }
			Spec     struct{ OutgoingPeeringEnabled string }
		}
		call("GET", "/api/clusters", &shown)
		for _, c := range shown {
			if c.Spec.OutgoingPeeringEnabled == "Yes" != (c.Metadata.Name == name) {
				t.Errorf("only %s is enabled: %+v", name, shown)
			}
		}
	}
}
