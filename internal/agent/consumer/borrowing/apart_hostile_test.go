package borrowing

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/test/raced"
)

// A pod that names the virtual node is on it, also if no cluster has what it requests. It stops nothing that the
// agent does there.
func TestAPodThatNoClusterCanRun(t *testing.T) {
	raced.Skip(t)
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

// A PodDisruptionBudget that allows nothing keeps what was taken from others for the graces, and no longer.
func TestABudgetKeepsNoExcess(t *testing.T) {
	p := newPot(t)
	p.budget = true
	p.place("noisy", "n1", "n2", "n3", "n4")
	p.look("quiet")
	p.kubelet()
	p.look("quiet")
	if len(p.deleted) > 0 {
		t.Fatalf("deleted are %v, within the graces", p.deleted)
	}
	p.clock.SetTime(p.clock.Now().Add(2*time.Minute + time.Second))
	p.look("quiet")
	if want := []string{"noisy/n4", "noisy/n3"}; !slices.Equal(p.deleted, want) {
		t.Errorf("deleted are %v, want %v", p.deleted, want)
	}
}

// A tenant that ends a pod after each eviction opens and closes the node about once a minute.
func TestANodeIsNotOpenedAgainAndAgain(t *testing.T) {
	raced.Skip(t)
	p := newPot(t)
	opened, n := 0, 0
	for range 60 { // five minutes
		var node corev1.Node
		p.get("", p.node, &node)
		if node.Labels[offload.Label("noisy")] != "" {
			opened++
			for len(p.pods) < 3 {
				n++
				p.place("noisy", fmt.Sprintf("n%03d", n))
			}
		}
		before := len(p.pods)
		if _, err := p.Serve(p.Context(), "milan"); err != nil {
			t.Fatal(err)
		}
		p.kubelet()
		if before == 2 && len(p.pods) == 2 {
			p.ends(p.pods[0].Name)
		}
		p.clock.SetTime(p.clock.Now().Add(5 * time.Second))
	}
	if opened > 7 {
		t.Errorf("the node was opened %d times in five minutes", opened)
	}
}

// A tenant that reserves for any namespace, and uses more than that with pods of high priority, takes nothing that
// another one reserved for itself, nor its share of the rest.
func TestAnotherKeepsWhatItReserved(t *testing.T) {
	p := newPot(t)
	p.borrows("any", nil)
	p.serve()
	p.kubelet()
	p.place("quiet", "q1", "q2", "q3") // of its own 2, of what is for any 1 of 2
	p.place("noisy", "n1", "n2", "n3", "n4", "n5", "n6")
	for _, pod := range p.pods {
		if pod.Namespace == "noisy" {
			pod.Spec.Priority = ptr.To[int32](1000)
		}
	}
	p.look("quiet")
	p.kubelet()
	p.look("quiet")
	p.look("quiet")
	if want := []string{"noisy/n6", "noisy/n5", "noisy/n4"}; !slices.Equal(p.evicted, want) {
		t.Errorf("evicted are %v, want %v", p.evicted, want)
	}
}
