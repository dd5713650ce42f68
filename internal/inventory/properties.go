package inventory

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
)

// mostValues is the largest number of values of a property. The rest, in alphabetical order, is left out.
const mostValues = 64

// gpuProducts are the labels with the name of a node's GPUs, as the vendors' operators and clouds set them. A
// SharingPolicy names further ones.
var gpuProducts = []string{
	"nvidia.com/gpu.product",
	"amd.com/gpu.product-name",
	"beta.amd.com/gpu.product-name",
	"gpu.intel.com/product",
	"cloud.google.com/gke-accelerator",
	"k8s.amazonaws.com/accelerator",
	"karpenter.k8s.aws/instance-gpu-name",
	"eks.amazonaws.com/instance-gpu-name",
	"gpu.nvidia.com/class", // CoreWeave, also the next
	"gpu.nvidia.com/model",
	"doks.digitalocean.com/gpu-model",
}

// properties returns the properties of the counted nodes, which requests select on. Those of virtual
// nodes are the ones that all of them have. Liqo calls every virtual node amd64.
func (i *Inventory) properties(nodes []node, gpuLabels []string) api.Properties {
	regions := count(nodes, corev1.LabelTopologyRegion)
	zones := count(nodes, corev1.LabelTopologyZone)
	gpus := count(nodes, slices.Concat(gpuProducts, gpuLabels)...)
	if len(nodes) > 0 && nodes[0].virtual {
		for _, counts := range []map[string]int{regions, zones, gpus} {
			maps.DeleteFunc(counts, func(_ string, have int) bool { return have < len(nodes) })
		}
		return api.Properties{
			Region: mostFrequent(regions), Zones: names(zones), GPUs: names(gpus),
			Unverified: slices.ContainsFunc(nodes, func(n node) bool { return n.byHand }),
		}
	}
	return api.Properties{
		Region:         mostFrequent(regions),
		Zones:          names(zones),
		Architectures:  names(count(nodes, corev1.LabelArchStable)),
		GPUs:           names(gpus),
		Kubernetes:     i.kubernetes,
		StorageClasses: names(i.storageClasses.items),
	}
}

// count returns the number of nodes with each value of some labels. A node counts once, also if several of its
// labels have the same value.
func count(nodes []node, labels ...string) map[string]int {
	counts := map[string]int{}
	for _, n := range nodes {
		values := map[string]bool{}
		for _, label := range labels {
			if value := n.labels[label]; value != "" && !values[value] {
				values[value] = true
				counts[value]++
			}
		}
	}
	return counts
}

// mostFrequent returns the value of the most nodes; of several, the first in the alphabet.
func mostFrequent(counts map[string]int) string {
	values := slices.Sorted(maps.Keys(counts))
	if len(values) == 0 {
		return ""
	}
	return slices.MaxFunc(values, func(a, b string) int { return cmp.Compare(counts[a], counts[b]) })
}

func names[V any](of map[string]V) []string {
	sorted := slices.Sorted(maps.Keys(of))
	return sorted[:min(len(sorted), mostValues)]
}
