package federation_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// bursting is a federation in which rome bursts through a hub, zurich, to austin.
type bursting struct {
	*fair
	work *federation.Work
	nth  int // at which of its writes each of them is killed
}

func newBursting(t *testing.T) *bursting {
	b := &bursting{fair: &fair{t: t}, work: federation.NewWork("shop", 0, size("2", "4Gi"))}
	after := &metav1.Duration{Duration: 200 * time.Millisecond}
	lends := func(name string) *federation.Member {
		return &federation.Member{Options: sim.Options{Name: name, Nodes: 2, CPU: 32, Memory: 64},
			Sharing: &api.Sharing{Terms: api.Terms{Relend: true}, Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	}
	ctx, stop := context.WithCancel(t.Context())
	b.Federation = must(federation.Start(ctx, t.TempDir(), slog.New(slog.DiscardHandler),
		&federation.Member{Options: sim.Options{Name: "rome", Nodes: 2, CPU: 8, Memory: 32}, Work: b.work,
			Pools: map[string]api.VirtualNodePoolSpec{"burst": {Namespaces: []string{"shop"}, Max: size("24", "48Gi"),
				PendingFor: after, ScaleDownAfter: after, Providers: api.PoolProviders{Only: []string{"zurich"}}}}},
		lends("austin"), lends("dallas"),
		&federation.Member{Options: sim.Options{Name: "zurich", Nodes: 1},
			Pools: map[string]api.VirtualNodePoolSpec{"upstream": {Demand: api.DemandFixed, Min: size("32", "64Gi"),
				Max: size("32", "64Gi"), ScaleDownAfter: after, Template: api.ReservationTemplate{Relend: true},
				Providers: api.PoolProviders{Only: []string{"austin"}}}},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
				Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{api.VirtualNodePoolLabel: "upstream"}}}}}}},
	))(t)
	t.Cleanup(func() { stop(); _ = b.Stop() })
	return b
}

func size(cpu, memory string) api.Resources {
	return api.Resources{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// shows waits until a VirtualNodePool of a member has so many CPUs used, reserved and at most.
func (b *bursting) shows(member, pool, cpu string) {
	b.t.Helper()
	var p api.VirtualNodePool
	for end := time.Now().Add(time.Minute); p.Status.CPU != cpu; time.Sleep(50 * time.Millisecond) {
		err := b.Members[member].Objects.Get(b.t.Context(), kube.ObjectKey{Name: pool}, &p)
		if time.Now().After(end) {
			b.t.Fatalf("%s of %s has %s, want %s: %v, %s", pool, member, p.Status.CPU, cpu, err, fmt.Sprintf("%+v", p.Status))
		}
	}
}

// Pods that have no room at home run at a hub, on what the hub borrows. Once they are gone, nothing is
// reserved for them.
func TestABurstThroughAHub(t *testing.T) {
	t.Parallel()
	b := newBursting(t)
	b.shows("zurich", "upstream", "0/32/32")
	b.work.Replicas.Store(12)
	b.shows("rome", "burst", "8/8/24")
	b.work.Replicas.Store(4)
	b.shows("rome", "burst", "0/0/24")
}
