package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// The max of a plain consumer's slice is allocated, and what its pods use beyond that. Its pods do not count
// twice.
func TestPlainConsumersAreAllocated(t *testing.T) {
	i := byHand(t, Options{
		Owner:    func(o *metav1.ObjectMeta) string { return o.Labels["by"] },
		User:     func(slice, consumer string) string { return slice + "-" + consumer },
		Consumer: func(string) string { return "" },
	})
	must(t, i.nodes.Add(aNode("n", "cpu", "64", "memory", "64Gi", "pods", "110")))
	own, theirs := aPod("own", "n", "cpu", "2"), aPod("theirs", "n", "cpu", "3", "memory", "9Gi")
	theirs.Labels = map[string]string{"by": "rented-lyon"}
	must(t, i.pods.Add(own))
	pool := general
	pool.PlainConsumers = []api.PlainConsumer{
		{Cluster: "lyon", Slice: "rented", Max: api.Resources{"cpu": resource.MustParse("4"),
			"memory": resource.MustParse("8Gi"), "example.com/none": resource.MustParse("1")}},
		{Cluster: "nice", Slice: "rented", Max: api.Resources{"cpu": resource.MustParse("500m")}},
	}
	allocated := func(cpu, memory string) {
		t.Helper()
		got := i.Measure([]api.PoolPolicy{pool}, nil).Pools[api.GeneralPool]
		if got.Allocated.Cpu().String() != cpu || got.Allocated.Memory().String() != memory || len(got.Accounts) > 0 {
			t.Errorf("allocated are %v, want %s CPU and %s; accounts are %v", got.Allocated, cpu, memory, got.Accounts)
		}
		if _, ok := got.Allocated[corev1.ResourceName("example.com/none")]; ok {
			t.Error("a resource counts that no node has")
		}
	}
	allocated("6500m", "8Gi")
	must(t, i.pods.Add(theirs))
	allocated("6500m", "9Gi")
	storage := resource.MustParse("100Gi")
	pool.Storage = &storage
	pool.PlainConsumers[1].Max["storage"] = resource.MustParse("80Gi")
	got := i.Measure([]api.PoolPolicy{pool}, nil).Pools[api.GeneralPool].Allocated[corev1.ResourceStorage]
	if got.String() != "80Gi" {
		t.Errorf("%s of storage is allocated", got.String())
	}
	pool.PlainConsumers = nil
	allocated("5", "9Gi")
}

// A hub lends none of what a plain consumer itself provides: the consumer's pods could not run there.
func TestPlainConsumersOwnMachines(t *testing.T) {
	i := byHand(t, Options{})
	for _, provider := range []string{"lyon", "rome"} {
		n := aNode("at-"+provider, "cpu", "8")
		n.Labels = map[string]string{"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": provider, "lent": "on"}
		must(t, i.nodes.Add(n))
	}
	hub := api.PoolPolicy{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
		Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}}
	signed := amounts.List{{Resource: "cpu", Value: 8000}}
	for _, want := range []string{"16", "8"} {
		pool := i.Measure([]api.PoolPolicy{hub}, map[string]amounts.List{"at-lyon": signed, "at-rome": signed}).Pools[api.GeneralPool]
		if pool.Allocatable.Cpu().String() != want {
			t.Errorf("with the plain consumers %v it has %v", hub.PlainConsumers, pool.Allocatable)
		}
		hub.PlainConsumers = []api.PlainConsumer{{Cluster: "lyon", Slice: "rented"}}
	}
}
