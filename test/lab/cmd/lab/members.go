package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// members are rome, which only borrows; milan, which lends most of what it has; and paris, which is
// smaller, has GPUs, and lends at most 8 CPU to one reservation. If milan is real it has one small node.
func members(liqo, real bool) []*federation.Member {
	share := func(percentage int32, tier string, most string) *api.Sharing {
		s := &api.Sharing{Labels: map[string]string{"tier": tier},
			Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: &percentage}}}
		if most != "" {
			s.MaxPerReservation = api.Resources{corev1.ResourceCPU: resource.MustParse(most)}
		}
		return s
	}
	milan := nodes("milan", "it", 4, "16", "64Gi", "", nil)
	if real {
		milan = milan[:1]
		milan[0].Real = true
	}
	gpu := map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
	return []*federation.Member{
		{ClusterOptions: lab.ClusterOptions{Name: "rome", Liqo: liqo, Nodes: nodes("rome", "it", 2, "8", "32Gi", "", nil)}},
		{
			ClusterOptions: lab.ClusterOptions{Name: "milan", Liqo: liqo, Nodes: milan},
			Sharing:        share(80, "gold", ""),
		},
		{
			ClusterOptions: lab.ClusterOptions{Name: "paris", Liqo: liqo,
				Nodes: nodes("paris", "fr", 2, "16", "128Gi", "4", gpu)},
			Sharing: share(100, "silver", "8"),
		},
	}
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
