package federation_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// The prototype's catalog of an aggregator shows hubs, and no cluster behind or beside them.
func TestCatalogOfAnAggregator(t *testing.T) {
	t.Parallel()
	dir, theirs := t.TempDir(), servertest.NewSubjectCA(t)
	milan := &federation.Member{Options: sim.Options{Name: "milan", Nodes: 1},
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	hub := &federation.Member{Options: sim.Options{Name: "hub", Nodes: 1},
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
			Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}}}}}
	ctx, stop := context.WithCancel(t.Context())
	interfaces := prototypes.Options{Agents: true, LegacyCA: caFile(t, dir, theirs), Aggregator: true}
	f := &fair{t: t}
	f.Federation = must(federation.StartWith(ctx, dir, slog.New(slog.DiscardHandler), interfaces, milan, hub))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })
	old := newPrototype(t, f.Federation, theirs, "cluster-1")
	old.joins(ctx, f.Federation)
	f.until("the hub alone is in the catalog", func() bool {
		var list []struct{ Metadata struct{ Name string } }
		status, _ := old.call(ctx, "GET", "/api/clusters", "", &list)
		return status == http.StatusOK && len(list) == 1 && list[0].Metadata.Name == "hub"
	})
}
