package policies

import (
	"errors"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// Of ProviderInstructions and Contracts an admin writes the annotations of acts, by each kind of write, and nothing
// else, with all rights of the cluster, too. The agent writes all of it, and whoever may delete one deletes it.
func TestActsOfAdmins(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	agent := w.mustAs(t, w.asAgent(t))
	if err := w.bind(t.Context(), "", "bourse-provider-admin", rbacv1.UserKind, "acting-admin"); err != nil {
		t.Fatal(err)
	}
	collector := w.mustAs(t, account{"garbage collector", rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:generic-garbage-collector", Groups: []string{"system:masters"}}})
	meta := metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-acts", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"note": "x"}, Finalizers: []string{"example.com/old"},
		OwnerReferences: []metav1.OwnerReference{owner("x")}}
	instruction := &api.ProviderInstruction{ObjectMeta: meta,
		Spec: api.Instruction{Reservation: "r-acts", Generation: 1, Consumer: "rome", Until: metav1.Now(),
			Resources: api.Resources{"cpu": resource.MustParse("1")}}}
	contract := &api.Contract{ObjectMeta: meta, Spec: api.ContractSpec{Reservation: "r-acts"}}
	for _, c := range []struct {
		object kube.Object
		change func(kube.Object)
		may    []string
		mayNot []string
	}{
		{instruction, func(o kube.Object) { o.(*api.ProviderInstruction).Spec.Generation = 2 },
			[]string{"approve", "refuse"}, []string{"reclaim", "evict"}},
		{contract, func(o kube.Object) { o.(*api.Contract).Spec.Reservation = "r-other" },
			[]string{"reclaim"}, []string{"approve", "refuse", "evict"}},
	} {
		there := c.object.DeepCopyObject().(kube.Object)
		if err := w.admin.Create(t.Context(), there); err != nil {
			t.Fatal(err)
		}
		defer func() {
			there.SetFinalizers(nil)
			if err := errors.Join(agent.Patch(t.Context(), there, kube.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`))), w.admin.Delete(t.Context(), there)); err != nil {
				t.Error(err)
			}
		}()
		refused := map[string]func(kube.Object){
			"its spec":        c.change,
			"a label":         func(o kube.Object) { o.SetLabels(with(o.GetLabels(), "c", "d")) },
			"fewer labels":    func(o kube.Object) { o.SetLabels(nil) },
			"a finalizer":     func(o kube.Object) { o.SetFinalizers(append(o.GetFinalizers(), "example.com/new")) },
			"an owner":        func(o kube.Object) { o.SetOwnerReferences(append(o.GetOwnerReferences(), owner("y"))) },
			"fewer owners":    func(o kube.Object) { o.SetOwnerReferences(nil) },
			"a note":          annotated("note", "y"),
			"another note":    annotated("other", "y"),
			"fewer notes":     func(o kube.Object) { o.SetAnnotations(nil) },
			"a note with act": func(o kube.Object) { o.SetAnnotations(map[string]string{"bourse.dev/" + c.may[0]: "x", "note": "y"}) },
		}
		for _, name := range c.mayNot {
			refused["bourse.dev/"+name] = annotated("bourse.dev/"+name, "0123456789abcdef")
		}
		says := "you may set the annotations bourse.dev/" + c.may[0]
		for who, by := range map[string]kube.Client{"a provider-admin": w.user(t, "acting-admin"), "a cluster's admin": w.admin} {
			w.eventually(t, "the policy is in force", func() error {
				if err := patched(t, by, there, refused["a label"]); !isRefusal(err, says) {
					return fmt.Errorf("it says %w", err)
				}
				return nil
			})
			for what, change := range refused {
				if err := patched(t, by, there, change); !isRefusal(err, says) {
					t.Errorf("%s writes %s of %T: %v", who, what, there, err)
				}
			}
			for _, name := range c.may {
				key := "bourse.dev/" + name
				if err := patched(t, by, there, annotated(key, "0123456789abcdef.n1 not now")); err != nil {
					t.Errorf("%s sets %s: %v", who, key, err)
				}
			}
			if err := patched(t, by, there, func(o kube.Object) { o.SetFinalizers(nil) }); err != nil {
				t.Errorf("%s takes a finalizer off: %v", who, err)
			}
		}
		if err := w.admin.Update(t.Context(), changed(there, annotated("bourse.dev/"+c.may[0], "x"))); err != nil {
			t.Errorf("an act by an update: %v", err)
		}
		if err := w.admin.Get(t.Context(), kube.ObjectKeyFromObject(there), there); err != nil {
			t.Fatal(err)
		}
		if err := patched(t, w.admin, there, func(o kube.Object) { o.SetAnnotations(map[string]string{"note": "x"}) }); err != nil {
			t.Errorf("the annotation is taken off: %v", err)
		}
		if err := w.user(t, "acting-admin").Delete(t.Context(), there, kube.DryRunAll); !apierrors.IsForbidden(err) || isPolicy(err) {
			t.Errorf("a provider-admin deletes it: %v", err)
		}
		for what, err := range map[string]error{
			"the agent changes its spec":               patched(t, agent, there, c.change),
			"the agent labels it":                      patched(t, agent, there, refused["a label"]),
			"an admin deletes it":                      w.admin.Delete(t.Context(), there, kube.DryRunAll),
			"an admin deletes all":                     w.admin.DeleteAllOf(t.Context(), there, kube.InNamespace(api.Namespace), kube.DryRunAll),
			"the garbage collector takes an owner off": patched(t, collector, there, refused["fewer owners"]),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// changed returns a copy of an object with a change.
func changed(o kube.Object, change func(kube.Object)) kube.Object {
	o = o.DeepCopyObject().(kube.Object)
	change(o)
	return o
}

// patched tries a change of an object by a merge patch.
func patched(t *testing.T, by kube.Client, there kube.Object, change func(kube.Object)) error {
	t.Helper()
	return by.Patch(t.Context(), changed(there, change), kube.MergeFrom(there), kube.DryRunAll)
}
