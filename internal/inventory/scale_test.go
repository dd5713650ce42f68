package inventory

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

const manyNodes, manyPods = 1_000, 30_000

// aRealPod is as large as pods are: what of it is not needed must not stay.
func aRealPod(n int) *corev1.Pod {
	p := aPod(fmt.Sprintf("checkout-frontend-7d9c5b8f6d-%05d", n), fmt.Sprintf("node-%d", n%manyNodes),
		"cpu", "250m", "memory", "512Mi", "ephemeral-storage", "1Gi")
	p.Namespace = fmt.Sprintf("team-%d", n%50)
	p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 2048)}}}
	p.Spec.Containers = append(p.Spec.Containers, aContainer("proxy", "cpu", "10m", "memory", "64Mi"))
	return p
}

func many(t fataler) *Inventory {
	i := byHand(t, Options{Owner: func(p *metav1.ObjectMeta) string { return p.Labels["owner"] }})
	for n := range manyNodes {
		node := aNode(fmt.Sprintf("node-%d", n), "cpu", "64", "memory",
			"256Gi", "ephemeral-storage", "1Ti", "pods", "110", "hugepages-2Mi", "0")
		for k := range 20 {
			node.Labels[fmt.Sprintf("node.example.com/label-%d", k)] = fmt.Sprintf("some value %d", n)
		}
		node.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", n%3)
		must(t, i.nodes.Add(node))
	}
	for n := range manyPods {
		must(t, i.pods.Add(aRealPod(n)))
	}
	return i
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// The goal is 1 KiB a pod in the whole agent; here it is far less, labels of nodes included.
func TestAPodIsKeptInFewBytes(t *testing.T) {
	before := heap()
	i := many(t)
	bytes := (heap() - before) / manyPods
	t.Logf("%d bytes a pod, nodes included", bytes)
	if bytes > 700 {
		t.Errorf("%d bytes a pod, want at most 700", bytes)
	}
	if got := plain(i.Measure([]api.PoolPolicy{general}, nil).Pools[api.GeneralPool].Allocated)["pods"]; got != fmt.Sprint(manyPods/1000)+"k" {
		t.Errorf("%s pods", got)
	}
}

func BenchmarkPodEvent(b *testing.B) {
	i := many(b)
	events := make([]*corev1.Pod, 1000)
	for n := range events {
		events[n] = aRealPod(n)
		events[n].Spec.NodeName = fmt.Sprintf("node-%d", n/2) // each event is a change
	}
	for n := 0; b.Loop(); n++ {
		p := events[n%len(events)]
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(n+1),
			resource.DecimalSI)
		must(b, i.pods.Update(p))
	}
}

func BenchmarkMeasure(b *testing.B) {
	i := many(b)
	pools := []api.PoolPolicy{general}
	for b.Loop() {
		i.Measure(pools, nil)
	}
}
