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

// gpuProducts are the labels with the name of a node's GPUs, as the vendors' operators and GKE set them.
var gpuProducts = []string{
	"nvidia.com/gpu.product",
	"amd.com/gpu.product-name",
	"gpu.intel.com/product",
	"cloud.google.com/gke-accelerator",
}

// labelCounts are the numbers of nodes with each value, by property.
type labelCounts struct {
	nodes                               int
	virtual, byHand                     bool
	regions, zones, architectures, gpus map[string]int
}

func (c *labelCounts) add(n node) {
	c.nodes++
	labels := n.labels
	c.byHand = c.byHand || n.byHand
	note(&c.regions, labels[corev1.LabelTopologyRegion])
	note(&c.zones, labels[corev1.LabelTopologyZone])
	if c.virtual = n.virtual; !n.virtual { // Liqo calls every virtual node amd64
		note(&c.architectures, labels[corev1.LabelArchStable])
	}
	for _, label := range gpuProducts {
		note(&c.gpus, labels[label])
	}
}

func note(counts *map[string]int, value string) {
	if value == "" {
		return
	}
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[value]++
}

// properties returns the properties of the counted nodes, which requests select on.
func (i *Inventory) properties(of labelCounts) api.Properties {
	if of.virtual {
		return of.common()
	}
	return api.Properties{
		Region:         mostFrequent(of.regions),
		Zones:          names(of.zones),
		Architectures:  names(of.architectures),
		GPUs:           names(of.gpus),
		Kubernetes:     i.kubernetes,
		StorageClasses: names(i.storageClasses.items),
	}
}

// common returns the properties of a pool of virtual nodes: those that all its nodes have.
func (c *labelCounts) common() api.Properties {
	for _, counts := range []map[string]int{c.regions, c.zones, c.gpus} {
		maps.DeleteFunc(counts, func(_ string, nodes int) bool { return nodes < c.nodes })
	}
	return api.Properties{
		Region: mostFrequent(c.regions), Zones: names(c.zones), GPUs: names(c.gpus), Unverified: c.byHand,
	}
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
