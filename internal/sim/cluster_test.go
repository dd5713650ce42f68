package sim_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/internal/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func clock() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// state is what a client sees of a cluster.
type state struct {
	Nodes []corev1.Node
	Pods  []corev1.Pod
}

func look(ctx context.Context, c *sim.Cluster) state {
	client := kubernetes.NewForConfigOrDie(c.API.Config())
	return state{
		must(client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})).Items,
		must(client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})).Items,
	}
}

func TestNewCluster(t *testing.T) {
	c := must(sim.NewCluster(t.Context(), sim.Options{Name: "milan",
		Region: "eu", Nodes: 4, Pods: 20, GPU: "NVIDIA-L4", GPUs: 2, Seed: 1, Clock: clock}))
	s := look(t.Context(), c)
	if len(s.Nodes) != 4 || len(s.Pods) != 20 {
		t.Fatalf("%d nodes, %d pods", len(s.Nodes), len(s.Pods))
	}
	n := s.Nodes[3]
	for label, want := range map[string]string{
		"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-a", "kubernetes.io/arch": "amd64", "nvidia.com/gpu.product": "NVIDIA-L4",
	} {
		if got := n.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "16",
		"memory": "63Gi", "nvidia.com/gpu": "2", "pods": "110"} {
		if got := n.Status.Allocatable[name]; got.String() != want {
			t.Errorf("allocatable %s is %s, want %s", name, got.String(), want)
		}
	}
	for _, p := range s.Pods {
		if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
}

// However long it lives, a cluster's pods fit on its nodes, and the same seed
// lives the same life.
func TestLife(t *testing.T) {
	for seed := range uint64(8) {
		o := sim.Options{
			Name: "x", Region: "eu", Clock: clock, CPU: 4, Memory: 8, GPU: "NVIDIA-L4",
			GPUs: int64(seed % 3), Nodes: int(seed % 5), Pods: int(seed * 3), Seed: seed + 1,
		}
		live := func() state {
			c := must(sim.NewCluster(t.Context(), o))
			for range 60 {
				if err := c.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return look(t.Context(), c)
		}
		s := live()
		if one, two := must(json.Marshal(s)), must(json.Marshal(live())); string(one) != string(two) {
			t.Fatalf("one seed, two lives:\n%s\n%s", one, two)
		}
		for _, n := range s.Nodes {
			free := n.Status.Allocatable.DeepCopy()
			for _, p := range s.Pods {
				if p.Spec.NodeName != n.Name {
					continue
				}
				for name, q := range p.Spec.Containers[0].Resources.Requests {
					left := free[name]
					left.Sub(q)
					free[name] = left
					if left.Sign() < 0 {
						t.Fatalf("node %s has %s %s left", n.Name, left.String(), name)
					}
				}
			}
		}
		if len(s.Pods) > 2*o.Pods+1 {
			t.Fatalf("%d pods, about %d wanted", len(s.Pods), o.Pods)
		}
	}
}

// In a long life everything happens, and much of it.
func TestEverythingHappens(t *testing.T) {
	c := must(sim.NewCluster(t.Context(), sim.Options{Name: "x", Region: "eu", Nodes: 5, Pods: 20, Seed: 3, Clock: clock}))
	seen := map[string]bool{}
	pods := map[string]bool{}
	for i := range 300 {
		if err := c.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%5 > 0 {
			continue // looking is the dear part
		}
		s := look(t.Context(), c)
		for _, n := range s.Nodes {
			seen["cordoned"] = seen["cordoned"] || n.Spec.Unschedulable
			seen["not ready"] = seen["not ready"] || n.Status.Conditions[0].Status != corev1.ConditionTrue
			seen["well"] = seen["well"] || !n.Spec.Unschedulable && n.Status.Conditions[0].Status == corev1.ConditionTrue
		}
		for _, p := range s.Pods {
			pods[p.Name] = true
		}
	}
	if !seen["cordoned"] || !seen["not ready"] || !seen["well"] || len(pods) < 60 {
		t.Errorf("seen %v, %d pods", seen, len(pods))
	}
}

func TestLive(t *testing.T) {
	c := must(sim.NewCluster(t.Context(), sim.Options{Name: "x", Nodes: 2, Pods: 5, Seed: 1, Clock: clock}))
	before := must(json.Marshal(look(t.Context(), c)))
	ctx, stop := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		c.Live(ctx, ticks)
	}()
	c.API.Down(true)
	ticks <- clock()
	ticks <- clock() // taken after the step before failed
	c.API.Down(false)
	for range 20 {
		ticks <- clock()
	}
	stop()
	<-ended
	if string(must(json.Marshal(look(t.Context(), c)))) == string(before) {
		t.Error("nothing happened")
	}
}

// BenchmarkCluster measures what a cluster of 50 nodes and 500 pods keeps.
func BenchmarkCluster(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all []*sim.Cluster
	for b.Loop() {
		all = append(all, must(sim.NewCluster(b.Context(),
			sim.Options{Name: "x", Region: "eu", Nodes: 50, Pods: 500, Seed: 1})))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(all))/(1<<20), "MiB/cluster")
	runtime.KeepAlive(all)
}

func BenchmarkStep(b *testing.B) {
	c := must(sim.NewCluster(b.Context(), sim.Options{Name: "x", Region: "eu", Nodes: 50, Pods: 500, Seed: 1}))
	for b.Loop() {
		if err := c.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
