package inventory

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

func TestWhatIsShared(t *testing.T) {
	percent, size := func(n int32) *int32 { return &n }, resource.MustParse("100Gi")
	for name, c := range map[string]struct {
		policy api.PoolPolicy
		want   map[string]string
	}{
		"everything by default": {api.PoolPolicy{},
			map[string]string{"cpu": "3333m", "memory": "7Gi", "nvidia.com/gpu": "3"}},
		"a percentage, rounded down": {api.PoolPolicy{Percentage: percent(50)},
			map[string]string{"cpu": "1666m", "memory": "3584Mi", "nvidia.com/gpu": "1"}},
		"nothing": {api.PoolPolicy{Percentage: percent(0)}, map[string]string{}},
		"a percentage without meaning": {api.PoolPolicy{Percentage: percent(1000)},
			map[string]string{"cpu": "3333m", "memory": "7Gi", "nvidia.com/gpu": "3"}},
		"listed resources only": {api.PoolPolicy{Resources: []string{"cpu", "unheard.of/this"}},
			map[string]string{"cpu": "3333m"}},
		"the cap is the smallest": {api.PoolPolicy{Caps: list("cpu", "2"), Percentage: percent(90)},
			map[string]string{"cpu": "2", "memory": "6764573491", "nvidia.com/gpu": "2"}},
		"the percentage is the smallest": {api.PoolPolicy{Caps: list("cpu", "3"), Percentage: percent(10)},
			map[string]string{"cpu": "333m", "memory": "751619276"}},
		"the headroom is the smallest": {api.PoolPolicy{Headroom: list("cpu", "3", "memory", "1Gi"),
			Caps: list("cpu", "2")}, map[string]string{"cpu": "333m", "memory": "6Gi", "nvidia.com/gpu": "3"}},
		"headroom of more than there is": {api.PoolPolicy{Headroom: list("cpu", "100", "memory", "8Ei")},
			map[string]string{"nvidia.com/gpu": "3"}},
		"a cap of nothing": {api.PoolPolicy{Caps: list("nvidia.com/gpu", "0", "cpu", "-1")},
			map[string]string{"memory": "7Gi"}},
		"storage, which no node tells": {api.PoolPolicy{Storage: &size,
			Percentage: percent(50), Resources: []string{"storage"}}, map[string]string{"storage": "50Gi"}},
		"storage that is kept back": {api.PoolPolicy{Storage: &size,
			Headroom: list("storage", "100Gi"), Resources: []string{"storage"}}, map[string]string{}},
		"bounds without meaning": {api.PoolPolicy{Caps: list("cpu", "9e18", "new", "1"), Headroom: list("memory",
			"-1Gi", "new", "1")}, map[string]string{"cpu": "3333m", "memory": "7Gi", "nvidia.com/gpu": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := byHand(t, Options{})
			must(t, i.nodes.Add(aNode("n", "cpu", "3333m", "memory", "7Gi", "nvidia.com/gpu", "3")))
			must(t, i.pods.Add(aPod("p", "n", "cpu", "3"))) // what is taken changes nothing of what is lent
			if diff := cmp.Diff(c.want, plain(i.Measure([]api.PoolPolicy{c.policy}, nil).Pools[""].Shared)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPropertiesAreThoseOfTheNodesThatCount(t *testing.T) {
	i := byHand(t, Options{})
	add := func(name string, labels ...string) *corev1.Node {
		n := aNode(name, "cpu", "1")
		for k := 0; k < len(labels); k += 2 {
			n.Labels[labels[k]] = labels[k+1]
		}
		must(t, i.nodes.Update(n))
		return n
	}
	const region, zone, arch = corev1.LabelTopologyRegion, corev1.LabelTopologyZone, corev1.LabelArchStable
	add("a", region, "west", zone, "west-2", arch, "arm64", "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB", "pool", "x")
	add("b", region, "east", zone, "east-1", arch, "amd64", "amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")
	add("c", region, "east", zone, "east-1", arch, "amd64")
	add("d", region, "west", zone, "west-1")
	cordoned := add("e", region, "west", zone, "west-9", arch, "riscv64")
	cordoned.Spec.Unschedulable = true
	must(t, i.nodes.Update(cordoned))
	for _, name := range []string{"slow", "fast"} {
		must(t, i.storageClasses.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	i.setKubernetes("v1.35.4")

	want := api.Properties{
		Region:         "east", // as frequent as west, and before it in the alphabet
		Zones:          []string{"east-1", "west-1", "west-2"},
		Architectures:  []string{"amd64", "arm64"},
		GPUs:           []string{"AMD_Instinct_MI300X_OAM", "NVIDIA-A100-SXM4-80GB"},
		Kubernetes:     "v1.35.4",
		StorageClasses: []string{"fast", "slow"},
	}
	if diff := cmp.Diff(want, i.Measure([]api.PoolPolicy{general}, nil).Properties); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	consumer := i.Measure(nil, nil)
	if diff := cmp.Diff(want, consumer.Properties); diff != "" || len(consumer.Pools) > 0 {
		t.Errorf("a cluster that only consumes (-want +got):\n%s", diff)
	}
	add("d", region, "west", zone, "west-1", "pool", "x")
	selected := i.Measure([]api.PoolPolicy{{Name: "x", NodeSelector: map[string]string{"pool": "x"}}}, nil).Properties
	if selected.Region != "west" || len(selected.Zones) != 2 || len(selected.GPUs) != 1 {
		t.Errorf("of the pool's nodes alone: %+v", selected)
	}
	for n := range 100 {
		add(fmt.Sprint(n), zone, fmt.Sprintf("zone-%03d", n))
	}
	if zones := i.Measure([]api.PoolPolicy{general}, nil).Properties.Zones; len(zones) != 64 || zones[63] != "zone-060" {
		t.Errorf("%d zones, %v", len(zones), zones)
	}
}

// Nodes without their pods would look free, so nothing is said before all is known.
func TestNothingIsMeasuredBeforeAllIsKnown(t *testing.T) {
	i := New(nil, Options{})
	must(t, i.nodes.Replace([]any{aNode("n", "cpu", "4")}, "1"))
	must(t, i.nodes.Replace([]any{aNode("n", "cpu", "4")}, "2")) // a second list is not a second kind
	must(t, i.storageClasses.Replace(nil, "1"))
	select {
	case <-i.Synced():
		t.Error("synced without pods")
	default:
	}
	if measured := i.Measure([]api.PoolPolicy{general}, nil); len(measured.Pools) > 0 {
		t.Errorf("measured %+v", measured)
	}
	must(t, i.pods.Replace([]any{aPod("p", "n", "cpu", "1")}, "1"))
	<-i.Synced()
	if !heard(i) {
		t.Error("no signal")
	}
	if got := plain(i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool].Allocated)["cpu"]; got != "1" {
		t.Errorf("allocated %q", got)
	}
}
