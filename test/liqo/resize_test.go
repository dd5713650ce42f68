package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// edit changes what a request asks for, as its user does with kubectl.
func (a *asked) edit(change func(*api.ResourceRequestSpec)) error {
	a.t.Helper()
	if err := a.from.Objects.Get(a.t.Context(), kube.ObjectKeyFromObject(a.request), a.request); err != nil {
		a.t.Fatal(err)
	}
	before := a.request.DeepCopy()
	change(&a.request.Spec)
	return a.from.Objects.Patch(a.t.Context(), a.request, kube.MergeFrom(before))
}

// answered waits for the answer to the last edit: a reason, UpToDate for a yes.
func (a *asked) answered(reason string) {
	a.t.Helper()
	generation := a.request.Generation
	eventually(a.t, a.request.Name+" is answered "+reason, func(ctx context.Context) error {
		if err := a.from.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), a.request); err != nil {
			return err
		}
		c := meta.FindStatusCondition(a.request.Status.Conditions, api.ConditionUpToDate)
		if c == nil || c.ObservedGeneration < generation || c.Reason != reason {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// A request that is edited becomes larger, longer and smaller, up to pods that must go; what is
// refused, or cannot change, leaves it as it was.
func TestResizeUpAndDown(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "resized", amounts("2", "2Gi"))
	a.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "2")
	a.run(4, "900m", "64Mi")
	a.runs(2)

	resize := func(cpu, memory string) func(*api.ResourceRequestSpec) {
		return func(s *api.ResourceRequestSpec) { s.Resources = amounts(cpu, memory) }
	}
	if err := a.edit(resize("4", "4Gi")); err != nil {
		t.Fatal(err)
	}
	a.answered("UpToDate")
	w.granted(t, w.rome, w.milan, "4")
	a.running(w.milan, 4)

	if err := a.edit(func(s *api.ResourceRequestSpec) { s.Duration = &metav1.Duration{Duration: 100 * time.Hour} }); err != nil {
		t.Fatal(err)
	}
	a.answered("UpToDate")
	if left := time.Until(a.request.Status.Until.Time); left < 99*time.Hour {
		t.Errorf("it was extended, and ends in %s", left)
	}
	eventually(t, "the provider's instruction is the third", func(ctx context.Context) error {
		var i api.ProviderInstruction
		if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: a.request.Status.Reservation},
			&i); err != nil {
			return err
		}
		if i.Spec.Generation != 3 {
			return fmt.Errorf("it is %+v", i.Spec)
		}
		return nil
	})

	if err := a.edit(resize("4000", "4Gi")); err != nil {
		t.Fatal(err)
	}
	a.answered(string(api.ReasonInsufficient))
	a.running(w.milan, 4)

	if err := a.edit(resize("1", "4Gi")); err != nil {
		t.Fatal(err)
	}
	a.answered("UpToDate")
	w.granted(t, w.rome, w.milan, "1")
	a.runs(1)
	a.running(w.milan, 1)
	before := podsIn(t, w.milan, "resized-rome")
	err := a.edit(func(s *api.ResourceRequestSpec) { s.Target = "paris" })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "only the resources, the units and the duration") {
		t.Errorf("another target: %v", err)
	}
	if after := podsIn(t, w.milan, "resized-rome"); !slices.Equal(before, after) {
		t.Errorf("the pods that fit were %v, are %v", before, after)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// runs waits until so many of the request's pods run, and all others wait for a node.
func (a *asked) runs(pods int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%d pods of %s run", pods, a.request.Name), func(ctx context.Context) error {
		var list corev1.PodList
		if err := a.from.Objects.List(ctx, &list, kube.InNamespace(a.request.Namespace)); err != nil {
			return err
		}
		n, others := 0, 0
		for _, p := range list.Items {
			switch {
			case p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning:
				n++
			case p.Spec.NodeName != "":
				others++
			}
		}
		if n != pods || others > 0 {
			return fmt.Errorf("%d run, %d others have a node", n, others)
		}
		return nil
	})
}
