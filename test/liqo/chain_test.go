package liqo

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// namesIn lists the names of a list's objects.
func namesIn(list kube.ObjectList) []string {
	var names []string
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(kube.Object).GetName())
		return nil
	})
	return names
}

// "Provision the capacity advertised": from nothing to a virtual node of exactly what was reserved,
// with pods that run on the provider, and back to nothing.
func TestGapProvisionTheCapacity(t *testing.T) {
	w := start(t)
	want := amounts("8", "16Gi")
	want["nvidia.com/gpu"] = resource.MustParse("1")
	a := w.ask(t, w.rome, w.milan, "chain", want)
	a.becomes(api.Active)

	milan, err := w.rome.People(0).Cluster(t.Context(), "milan")
	if p := milan.Payload.Properties; err != nil || p.Liqo != lab.LiqoVersion ||
		p.APIServer != w.milan.Cluster.Config().Host {
		t.Errorf("milan's card says Liqo %q, API server %q, %v", p.Liqo, p.APIServer, err)
	}
	slice := market.SliceName("rome", "milan", api.GeneralPool)
	var node corev1.Node
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Name: slice}, &node); err != nil {
		t.Fatal(err)
	}
	for name, amount := range want {
		if got := node.Status.Allocatable[name]; got.Cmp(amount) != 0 {
			t.Errorf("the virtual node has %s %s, reserved were %s", got.String(), name, amount.String())
		}
	}
	if node.Labels["bourse.dev/provider"] != "milan" || node.Labels["bourse.dev/pool"] != api.GeneralPool ||
		node.Labels[corev1.LabelTopologyRegion] != "it" {
		t.Errorf("the virtual node is labelled %v", node.Labels)
	}

	a.run(20, "100m", "64Mi")
	a.running(w.milan, 20)
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// Two reservations of one account add up to one grant, even if the consumer asks for more; when one
// ends, the pods of the other go on. A new one, during the teardown of the last, starts from
// nothing.
func TestReservationsOfOneAccountAddUp(t *testing.T) {
	w := start(t)
	first := w.ask(t, w.rome, w.paris, "add-first", amounts("4", "8Gi"))
	first.becomes(api.Active)
	second := w.ask(t, w.rome, w.paris, "second", amounts("2", "4Gi"))
	second.becomes(api.Active)
	w.granted(t, w.rome, w.paris, "6")
	drifted := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome",
		Name: market.SliceName("rome", "paris", api.GeneralPool)}}
	err := w.paris.Objects.Status().Patch(t.Context(), drifted, kube.RawPatch(types.MergePatchType, []byte(`{"status":{"resources":{"cpu":"16"}}}`)))
	if cpu := drifted.Status.Resources[corev1.ResourceCPU]; err != nil || cpu.String() != "16" {
		t.Fatalf("an admin of paris grants 16 CPU: %s, %v", cpu.String(), err)
	}
	w.granted(t, w.rome, w.paris, "6") // put right
	second.run(4, "400m", "64Mi")
	second.running(w.paris, 4)
	of := func(namespace string, shared bool) []api.NamespaceUse {
		return []api.NamespaceUse{{Name: namespace, Used: amounts("1600m", "256Mi"), Shared: shared}}
	}
	second.uses("second", w.rome, &api.ReservationInstruction{}, "2 1600m", of("second", false)) // it alone names it
	first.uses("add-first", w.rome, &api.ReservationInstruction{}, "4 0", nil)
	first.uses(api.Namespace, w.paris, &api.ProviderInstruction{}, "4 not known", of("second-rome", true))

	first.release()
	w.granted(t, w.rome, w.paris, "2")
	second.running(w.paris, 4)

	second.release()
	third := w.ask(t, w.rome, w.paris, "third", amounts("1", "1Gi"))
	third.becomes(api.Active)
	w.granted(t, w.rome, w.paris, "1")
	third.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// Of two reservations of one account one expires while the consumer's agent is dead: the provider
// ends it by its signed time, and the pods of the other never stop.
func TestOneExpiresWhileTheConsumersAgentIsDead(t *testing.T) {
	w := start(t)
	stays := w.ask(t, w.rome, w.paris, "goes-on", amounts("2", "4Gi"))
	stays.becomes(api.Active)
	stays.run(2, "900m", "64Mi")
	stays.running(w.paris, 2)
	expires := w.ask(t, w.rome, w.paris, "expires", amounts("3", "4Gi"), func(r *api.ResourceRequest) {
		r.Spec.Duration = &metav1.Duration{Duration: time.Minute} // the shortest that there is
	})
	expires.becomes(api.Active)
	w.granted(t, w.rome, w.paris, "5")
	before := podsIn(t, w.rome, "goes-on")

	agent := w.agentOf(t, w.rome)
	agent.kill()
	federation.Eventually(t, time.Minute+market.SkewGrace+patience,
		"what expired is no longer granted", func(ctx context.Context) error {
			var slice authv1beta1.ResourceSlice
			err := w.paris.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-rome",
				Name: market.SliceName("rome", "paris", api.GeneralPool)}, &slice)
			if cpu := slice.Status.Resources[corev1.ResourceCPU]; err == nil && cpu.String() != "2" {
				err = fmt.Errorf("granted are %s", cpu.String())
			}
			return err
		})
	stays.running(w.paris, 2)
	agent.start() // it keeps the virtual node, which has its former size until then
	eventually(t, "it is over for the consumer, too", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(expires.request), expires.request)
		if err == nil && !expires.request.Status.State.Over() {
			err = fmt.Errorf("it is %s: %s", expires.request.Status.State, expires.request.Status.Message)
		}
		return err
	})
	w.granted(t, w.rome, w.paris, "2")
	stays.running(w.paris, 2)
	if after := podsIn(t, w.rome, "goes-on"); !slices.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
	stays.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// uses waits until an instruction of the request shows what it is granted and uses, the same of its account of two, and
// what is used by namespace.
func (a *asked) uses(namespace string, at *federation.Member, o kube.Object, own string,
	namespaces []api.NamespaceUse) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("the %T of %s shows what is used", o, a.request.Name), func(ctx context.Context) error {
		if err := at.Objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: a.request.Status.Reservation},
			o); err != nil {
			return err
		}
		var s api.InstructionStatus
		switch i := o.(type) {
		case *api.ReservationInstruction:
			s = i.Status
		case *api.ProviderInstruction:
			s = i.Status
		}
		used := "not known"
		if s.Used != nil {
			used = s.Used.Cpu().String()
		}
		if s.Granted.Cpu().String()+" "+used != own || s.SharedBy != 2 || s.Account == nil ||
			s.Account.Granted.Cpu().String() != "6" || s.Account.Used.Cpu().String() != "1600m" ||
			!equality.Semantic.DeepEqual(s.Namespaces, namespaces) {
			return fmt.Errorf("it says %+v", s)
		}
		return nil
	})
}

// A part of what is lent ends while its pods refuse to go: those of the other reservation never
// stop, the others are moved off, and where a PodDisruptionBudget holds them they are taken back in
// the end.
func TestPodsThatRefuseToGo(t *testing.T) {
	w := start(t)
	leaves := w.ask(t, w.rome, w.paris, "leaves", amounts("2", "4Gi"))
	leaves.becomes(api.Active)
	stays := w.ask(t, w.rome, w.paris, "stays", amounts("2", "4Gi"))
	stays.becomes(api.Active)
	w.granted(t, w.rome, w.paris, "4")
	stays.run(2, "1", "64Mi")
	stays.running(w.paris, 2)
	leaves.run(2, "900m", "64Mi")
	leaves.running(w.paris, 2)
	all := intstr.FromString("100%")
	if err := w.rome.Objects.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "leaves", Name: "all"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leaves"}}},
	}); err != nil {
		t.Fatal(err)
	}
	before := podsIn(t, w.rome, "stays")
	if err := w.rome.Objects.Delete(t.Context(), leaves.request.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "paris says that its pods overstay", func(ctx context.Context) error {
		var i api.ProviderInstruction
		if err := w.paris.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: leaves.request.Status.Reservation},
			&i); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionOverstaying) {
			return fmt.Errorf("its conditions are %+v", i.Status.Conditions)
		}
		return nil
	})
	leaves.released()
	w.granted(t, w.rome, w.paris, "2")
	stays.running(w.paris, 2)
	if after := podsIn(t, w.rome, "stays"); !slices.Equal(before, after) {
		t.Errorf("the pods of the reservation that goes on were %v, are %v", before, after)
	}
	stays.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// podsIn are the UIDs of a namespace's pods.
func podsIn(t *testing.T, m *federation.Member, namespace string) (uids []string) {
	t.Helper()
	var list corev1.PodList
	if err := m.Objects.List(t.Context(), &list, kube.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			uids = append(uids, string(p.UID))
		}
	}
	slices.Sort(uids)
	return uids
}

// granted waits until the provider grants a consumer just so much CPU, and the virtual node has it.
func (w *world) granted(t *testing.T, consumer, provider *federation.Member, cpu string) {
	t.Helper()
	name := market.SliceName(consumer.Name, provider.Name, api.GeneralPool)
	eventually(t, fmt.Sprintf("%s is granted %s CPU of %s", consumer.Name, cpu, provider.Name),
		func(ctx context.Context) error {
			var slice authv1beta1.ResourceSlice
			if err := provider.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-" + consumer.Name, Name: name},
				&slice); err != nil {
				return err
			}
			if got := slice.Status.Resources[corev1.ResourceCPU]; got.String() != cpu {
				return fmt.Errorf("granted are %s: %+v", got.String(), slice.Status.Conditions)
			}
			var node corev1.Node
			if err := consumer.Objects.Get(ctx, kube.ObjectKey{Name: name}, &node); err != nil {
				return err
			}
			if got := node.Status.Allocatable[corev1.ResourceCPU]; got.String() != cpu {
				return fmt.Errorf("the node has %s", got.String())
			}
			return nil
		})
}

// Two clusters lend to each other at the same time.
func TestBothDirections(t *testing.T) {
	w := start(t)
	there := w.ask(t, w.rome, w.milan, "there", amounts("2", "2Gi"))
	back := w.ask(t, w.milan, w.rome, "and-back", amounts("3", "3Gi"))
	there.becomes(api.Active)
	back.becomes(api.Active)
	there.run(2, "100m", "64Mi")
	back.run(2, "100m", "64Mi")
	there.running(w.milan, 2)
	back.running(w.rome, 2)
	there.release()
	back.running(w.rome, 2)
	back.release()
	w.nothingLeft(t, w.rome, w.milan)
}
