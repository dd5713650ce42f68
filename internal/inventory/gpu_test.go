package inventory

import (
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A request can ask for the model of GPUs on nodes of each vendor's operator, and of clouds that have labels of
// their own.
func TestGPUsOfVendors(t *testing.T) {
	for _, label := range []string{
		"nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name", "gpu.intel.com/product",
		"cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name",
		"eks.amazonaws.com/instance-gpu-name", "gpu.nvidia.com/class", "gpu.nvidia.com/model",
		"doks.digitalocean.com/gpu-model",
	} {
		i := byHand(t, Options{})
		n := aNode("a", "cpu", "1")
		n.Labels[label] = "l4"
		must(t, i.nodes.Update(n))
		if got := i.Measure([]api.PoolPolicy{general}, nil).Properties.GPUs; !slices.Equal(got, []string{"l4"}) {
			t.Errorf("with label %s: %v", label, got)
		}
	}
}

// A hub claims a model that all of its virtual nodes have. One with two labels of the same value does not count
// for another without.
func TestAGPUWithTwoLabels(t *testing.T) {
	nodes := []node{{virtual: true, labels: map[string]string{"gpu.nvidia.com/class": "L4", "gpu.nvidia.com/model": "L4"}},
		{virtual: true}}
	if got := (&Inventory{}).properties(nodes, nil).GPUs; len(got) > 0 {
		t.Errorf("one of two virtual nodes has L4, and the hub claims %v", got)
	}
}
