package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// members are rome, which only borrows; milan, which lends most of what it has; and paris, which is
// smaller, has GPUs, and lends at most 8 CPU to one reservation. If milan is real it has one small node. With a
// machine rome and milan have one node each, in it.
func members(o options, machine *lab.Machine) []*federation.Member {
	share := func(percentage int32, tier string, most string) *api.Sharing {
		pool := api.PoolPolicy{Name: api.GeneralPool, Percentage: &percentage}
		if o.storage {
			pool.StorageClasses = []string{lab.DiskClass}
		}
		s := &api.Sharing{Labels: map[string]string{"tier": tier}, Pools: []api.PoolPolicy{pool}}
		if most != "" {
			s.MaxPerReservation = api.Resources{corev1.ResourceCPU: resource.MustParse(most)}
		}
		return s
	}
	rome, milan := nodes("rome", "it", 2, "8", "32Gi", "", nil), nodes("milan", "it", 4, "16", "64Gi", "", nil)
	if o.real {
		milan = milan[:1]
		milan[0].Real = true
	}
	gpu := map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
	liqo := !o.withoutLiqo
	all := []*federation.Member{
		{ClusterOptions: lab.ClusterOptions{Name: "rome", Liqo: liqo, Nodes: rome}},
		{ClusterOptions: lab.ClusterOptions{Name: "milan", Liqo: liqo, Nodes: milan}, Sharing: share(80, "gold", "")},
		{
			ClusterOptions: lab.ClusterOptions{Name: "paris", Liqo: liqo,
				Nodes: nodes("paris", "fr", 2, "16", "128Gi", "4", gpu)},
			Sharing: share(100, "silver", "8"),
		},
	}
	if machine != nil {
		for i, gateway := range []network.Gateway{network.GatewayOutbound, network.GatewayNodePort} {
			all[i].Nodes, all[i].Machine = nil, machine
			all[i].AgentFlags = []string{"--network-gateway", string(gateway), "--allow-peer-range", "172.30.0.0/24"}
		}
		all[1].Sharing.Network = api.NetworkWireGuard
	}
	return all
}

// lendDisks has milan and paris provision disks, and gives rome the class of Liqo's storage fabric.
func lendDisks(ctx context.Context, f *federation.Federation) error {
	for _, m := range f.Members[1:] {
		if err := m.Cluster.LendDisks(ctx); err != nil {
			return err
		}
	}
	return f.Members[0].Cluster.LiqoDisks(ctx)
}

// nodes are of one size, in zones of a region.
func nodes(cluster, region string, count int, cpu, memory, gpus string, labels map[string]string) []lab.Node {
	var all []lab.Node
	for i := range count {
		n := lab.Node{
			Name: fmt.Sprintf("%s-%d", cluster, i+1),
			Labels: map[string]string{
				corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: fmt.Sprintf("%s-%c", region, 'a'+i%3),
			},
			Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory)},
		}
		if gpus != "" {
			n.Resources["nvidia.com/gpu"] = resource.MustParse(gpus)
		}
		for name, value := range labels {
			n.Labels[name] = value
		}
		all = append(all, n)
	}
	return all
}
