package liqo_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// What goes is no more than must, and what is worth least goes first.
func TestExcess(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name, cpu string, priority int32, age time.Duration, first bool) liqo.Running {
		return liqo.Running{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))}, First: first,
			Spec: &corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu),
					"memory": resource.MustParse("1Gi")}},
			}}},
		}
	}
	all := []liqo.Running{
		pod("important", "2", 10, time.Minute, false), pod("old", "2",
			0, time.Hour, false), pod("young", "2", 0, time.Minute, false),
		pod("leaving", "1", 100, 2*time.Hour, true), pod("same", "2", 0, time.Minute, false),
	}
	for keep, want := range map[string]string{
		"9": "", "8.5": "leaving", "8": "leaving", "7": "leaving same", "4": "leaving same young", "3": "leaving same young old", "0": "leaving same young old important",
	} {
		var names []string
		for _, p := range liqo.Excess(all, api.Resources{"cpu": resource.MustParse(keep),
			"nvidia.com/gpu": resource.MustParse("0")}) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("of 9, to keep %s, go %q, want %q", keep, got, want)
		}
	}
}

// A pod that takes nothing of what is too much stays, however little it is worth.
func TestExcessOfOneResource(t *testing.T) {
	pod := func(name, resourceName string, age time.Duration) liqo.Running {
		return liqo.Running{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}, Spec: &corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}},
		}}}}
	}
	all := []liqo.Running{pod("young", "cpu", time.Minute), pod("gpu", "nvidia.com/gpu", time.Hour),
		pod("younger", "cpu", time.Second)}
	got := liqo.Excess(all, api.Resources{"cpu": resource.MustParse("2"), "nvidia.com/gpu": resource.MustParse("0")})
	if len(got) != 1 || got[0].Name != "gpu" {
		t.Errorf("what goes is %+v", got)
	}
}
