package borrowing

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// A pod that names the virtual node is on it, whatever it requests, though it never runs. It stops nothing that the
// agent does there.
func TestAPodThatNoClusterCanRun(t *testing.T) {
	names := api.Resources{}
	for i := range 100 {
		names[corev1.ResourceName(fmt.Sprintf("example.com/invented%d", i))] = resource.MustParse("1")
	}
	for what, use := range map[string]api.Resources{
		"more than any cluster has": {"cpu": resource.MustParse("8E"), "memory": resource.MustParse("8E")},
		"many resources":            names,
	} {
		for _, of := range []string{"noisy", "stranger"} {
			t.Run(what+" of "+of, func(t *testing.T) {
				p := newPot(t)
				p.place("noisy", "n1", "n2", "n3", "n4")
				p.place("quiet", "q1")
				hostile := func() {
					for name, amount := range use {
						if p.used[of] == nil {
							p.used[of] = api.Resources{}
						}
						p.used[of][name] = amount
					}
				}
				hostile()
				p.look("quiet")
				p.kubelet()
				p.look("quiet")
				if want := []string{"noisy/n4", "noisy/n3"}; !slices.Equal(p.evicted, want) {
					t.Errorf("evicted are %v, want %v", p.evicted, want)
				}
				p.borrows("fresh", &api.Offload{})
				hostile()
				p.serve()
				if slice, _ := p.sliceOf(); slice.Spec.Resources.Cpu().Value() != 3 {
					t.Errorf("a third request is not served: the slice asks for %v", slice.Spec.Resources)
				}
				p.shows("quiet", api.ConditionPodsComply, metav1.ConditionTrue, "PodsComply")
			})
		}
	}
}
