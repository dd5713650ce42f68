package offload

import (
	"maps"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Which NamespaceOffloadings would take a new provider in: when in doubt, they do.
func TestSelects(t *testing.T) {
	of := func(terms ...corev1.NodeSelectorRequirement) *offv1beta1.NamespaceOffloading {
		o := &offv1beta1.NamespaceOffloading{}
		for _, term := range terms {
			o.Spec.ClusterSelector.NodeSelectorTerms = append(o.Spec.ClusterSelector.NodeSelectorTerms,
				corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{term}})
		}
		return o
	}
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	for name, c := range map[string]struct {
		o    *offv1beta1.NamespaceOffloading
		want bool
	}{
		"no selector":        {of(), true},
		"every virtual node": {of(in("liqo.io/type", "virtual-node")), true},
		"this provider":      {of(in("liqo.io/remote-cluster-id", "milan")), true},
		"another provider":   {of(in("liqo.io/remote-cluster-id", "oslo")), false},
		"another, or this": {of(in("liqo.io/remote-cluster-id", "oslo"),
			in("liqo.io/remote-cluster-id", "milan")), true},
		"by a label of ours":  {of(in("bourse.dev/pool", "general")), true},
		"by a label it lacks": {of(in("topology.kubernetes.io/region", "mars")), false},
		"what cannot be read": {of(corev1.NodeSelectorRequirement{Key: "x", Operator: "Sometimes"}), true},
		"everyone but somebody": {of(corev1.NodeSelectorRequirement{Key: "liqo.io/remote-cluster-id",
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{"oslo"}}), true},
		"everyone but this": {of(corev1.NodeSelectorRequirement{Key: "liqo.io/remote-cluster-id",
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{"milan"}}), false},
		"with that label": {of(corev1.NodeSelectorRequirement{Key: "bourse.dev/pool",
			Operator: corev1.NodeSelectorOpExists}), true},
		"without that label": {of(corev1.NodeSelectorRequirement{Key: "bourse.dev/pool",
			Operator: corev1.NodeSelectorOpDoesNotExist}), false},
	} {
		if got := selects(c.o, "milan", map[string]string{"bourse.dev/pool": "general"}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The label of a namespace with the longest name is valid. A provider chooses the zone of its virtual node, but not
// the namespaces that may run there, nor whose node it is, nor a label that no API server takes.
func TestLabelsOfAVirtualNode(t *testing.T) {
	long := strings.Repeat("n", 63)
	slice := &authv1beta1.ResourceSlice{Status: authv1beta1.ResourceSliceStatus{NodeLabels: map[string]string{
		corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "a b", Label("payroll"): "true",
		"liqo.io/remote-cluster-id": "oslo", "zone": "a",
	}}}
	got := newNode(slice, "milan", nil, Node{Namespaces: []string{"demo", long}}).Spec.Labels
	want := map[string]string{corev1.LabelTopologyZone: "a", "liqo.io/remote-cluster-id": "milan",
		"bourse.dev/provider":     "milan",
		"offload.bourse.dev/demo": "true", "offload.bourse.dev/" + long: "true"}
	if !maps.Equal(got, want) {
		t.Errorf("the labels are %v, want %v", got, want)
	}
	for key := range got {
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			t.Errorf("%s: %v", key, wrong)
		}
	}
}
