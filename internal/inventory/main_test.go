package inventory

import (
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// general is a policy that shares everything.
var general = api.PoolPolicy{Name: api.GeneralPool}

// byHand is a synced inventory that a test feeds itself.
func byHand(t fataler, options Options) *Inventory {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	i := New(nil, options)
	must(t, i.nodes.Replace(nil, "1"))
	must(t, i.pods.Replace(nil, "1"))
	must(t, i.storageClasses.Replace(nil, "1"))
	heard(i)
	return i
}

// heard says whether a change was signalled since it was last asked.
func heard(i *Inventory) bool {
	select {
	case <-i.Changed():
		return true
	default:
		return false
	}
}

// fataler is a *testing.T, *testing.B or *rapid.T.
type fataler interface {
	Helper()
	Fatal(...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// list reads "cpu", "4", "memory", "8Gi" ...
func list(of ...string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for n := 0; n < len(of); n += 2 {
		resources[corev1.ResourceName(of[n])] = resource.MustParse(of[n+1])
	}
	return resources
}

// aNode is Ready and has list(resources...).
func aNode(name string, resources ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Capacity:    list(resources...),
			Allocatable: list(resources...),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// aPod runs on a node in one container that requests list(resources...).
func aPod(name, node string, resources ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{aContainer("main", resources...)}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func aContainer(name string, resources ...string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(resources...)}}
}

// plain is resources as strings, so that 1 and 1000m are the same.
func plain(resources api.Resources) map[string]string {
	plain := map[string]string{}
	for name, q := range resources {
		plain[string(name)] = q.String()
	}
	return plain
}
