package federation_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// A VirtualNodePool grows at a provider that has a request of the same cluster, and a request reserves at a provider that
// serves the pool. Where there is no candidate, it reserves once there is one: when the request has ended, and when
// its provider lends more.
func TestAPoolGrowsBesideRequests(t *testing.T) {
	t.Parallel()
	f := &fair{t: t}
	work := federation.NewWork("shop", 0, size("2", "4Gi"))
	after := &metav1.Duration{Duration: 200 * time.Millisecond}
	rome := &federation.Member{Options: sim.Options{Name: "rome", Nodes: 1, CPU: 2, Memory: 8}, Work: work,
		Pools: map[string]api.VirtualNodePoolSpec{"burst": {Namespaces: []string{"shop"}, Max: size("24", "48Gi"),
			PendingFor: after, ScaleDownAfter: after, Providers: api.PoolProviders{Only: []string{"milan"}}}}}
	milan := &federation.Member{Options: sim.Options{Name: "milan", Nodes: 1, CPU: 16, Memory: 64},
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Caps: size("12", "64Gi")}}}}
	ctx, stop := context.WithCancel(t.Context())
	f.Federation = must(federation.Start(ctx, t.TempDir(), slog.New(slog.DiscardHandler), rome, milan))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })

	f.until("milan lends", func() bool {
		c, err := rome.People.Cluster(ctx, "milan")
		return err == nil && len(c.Payload.Pools) > 0
	})
	ask := func(name, cpu, memory string) *api.ResourceRequest {
		t.Helper()
		own := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: api.ResourceRequestSpec{Request: api.Request{Resources: size(cpu, memory), Target: "milan"}}}
		if err := rome.Objects.Create(ctx, own); err != nil {
			t.Fatal(err)
		}
		f.until("rome reserved at milan for "+name, func() bool {
			_ = rome.Objects.Get(ctx, kube.ObjectKeyFromObject(own), own)
			return own.Status.State == api.Reserved
		})
		return own
	}
	ask("tiny", "1m", "1Mi")
	shows := func(limited, cpu string) {
		t.Helper()
		began := time.Now()
		var p api.VirtualNodePool
		f.until("the pool shows "+limited+cpu, func() bool {
			_ = rome.Objects.Get(ctx, kube.ObjectKey{Name: "burst"}, &p)
			for _, c := range p.Status.Conditions {
				if c.Type == api.ConditionLimited && limited != "" && c.Reason == limited {
					return true
				}
			}
			return limited == "" && p.Status.CPU == cpu
		})
		t.Logf("after %s the pool shows %s%s", time.Since(began), limited, cpu)
	}
	work.Replicas.Store(4) // one of them runs at home
	shows("", "6/6/24")
	own := ask("own", "4", "8Gi")

	work.Replicas.Store(6)
	shows("NoCandidate", "")
	if err := rome.Objects.Delete(ctx, own); err != nil {
		t.Fatal(err)
	}
	shows("", "10/10/24")

	work.Replicas.Store(9)
	shows("NoCandidate", "")
	f.shares(milan, func(s *api.Sharing) { s.Pools[0].Caps = nil })
	shows("", "14/14/24") // the tiny one has the rest
}
