package kubeapitest

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func testDelete(s *suite) {
	made := s.create(widget("a", nil))
	wrong, right, old := types.UID("00000000-0000-0000-0000-000000000000"), made.GetUID(), made.GetResourceVersion()
	made.SetLabels(map[string]string{"k": "v"})
	s.update(made)
	for what, p := range map[string]metav1.Preconditions{"uid": {UID: &wrong},
		"revision": {UID: &right, ResourceVersion: &old}} {
		err := s.widgets.Delete(s.ctx, "a", metav1.DeleteOptions{Preconditions: &p})
		s.refused(err, apierrors.IsConflict, "delete of another "+what)
	}
	s.ok(s.widgets.Delete(s.ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &right}}))
	s.refused(s.widgets.Delete(s.ctx, "a", metav1.DeleteOptions{}), apierrors.IsNotFound, "second delete")
	if again := s.create(widget("a", nil)); again.GetUID() == right {
		s.Error("an object that was created again has the old one's uid")
	}
	s.pod("p", "")
	s.ok(s.kube.CoreV1().Pods(s.ns).Delete(s.ctx, "p", metav1.DeleteOptions{}))
	_, err := s.kube.CoreV1().Pods(s.ns).Get(s.ctx, "p", metav1.GetOptions{})
	s.refused(err, apierrors.IsNotFound, "a pod that never ran, deleted")
}

func testFinalizers(s *suite) {
	w := widget("a", object{"size": int64(1)})
	w.SetFinalizers([]string{"bourse.dev/one", "bourse.dev/two"})
	s.create(w)
	s.delete("a")
	kept := s.get("a")
	if kept.GetDeletionTimestamp() == nil {
		s.Fatal("no deletionTimestamp while finalizers keep the object")
	}
	s.equal(kept.GetGeneration(), 2, "generation of what is being deleted")
	s.delete("a")
	s.equal(s.get("a"), kept, "the object after a second delete")

	more := kept.DeepCopy()
	more.SetFinalizers([]string{"bourse.dev/one", "bourse.dev/two", "bourse.dev/three"})
	_, err := s.widgets.Update(s.ctx, more, metav1.UpdateOptions{})
	s.refused(err, apierrors.IsInvalid, "a finalizer added during deletion")
	undeleted := kept.DeepCopy()
	undeleted.SetDeletionTimestamp(nil)
	s.equal(s.update(undeleted).GetDeletionTimestamp(), kept.GetDeletionTimestamp(),
		"deletionTimestamp that a client removes")

	kept.SetFinalizers([]string{"bourse.dev/two"})
	s.update(kept)
	_, err = s.patch("a", types.MergePatchType, object{"metadata": object{"finalizers": nil}})
	s.ok(err)
	_, err = s.widgets.Get(s.ctx, "a", metav1.GetOptions{})
	s.refused(err, apierrors.IsNotFound, "the object without finalizers")
}

// names are those of a list of widgets, in its order.
func (s *suite) names(o metav1.ListOptions) (names []string) {
	s.Helper()
	list, err := s.widgets.List(s.ctx, o)
	s.ok(err)
	for _, w := range list.Items {
		names = append(names, w.GetName())
	}
	return names
}

func (s *suite) owned(name string, owners ...*unstructured.Unstructured) {
	s.Helper()
	w := widget(name, nil)
	var refs []metav1.OwnerReference
	for _, o := range owners {
		refs = append(refs, metav1.OwnerReference{APIVersion: o.GetAPIVersion(),
			Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()})
	}
	w.SetOwnerReferences(refs)
	s.create(w)
}

func testGarbage(s *suite) {
	first, two := s.create(widget("one", nil)), s.create(widget("two", nil))
	s.owned("child", first)
	s.owned("shared", first, two)
	s.owned("grandchild", s.get("child"))
	background := metav1.DeletePropagationBackground
	s.ok(s.widgets.Delete(s.ctx, "one", metav1.DeleteOptions{PropagationPolicy: &background}))
	s.eventually("dependents of one are collected", func() bool {
		return fmt.Sprint(s.names(metav1.ListOptions{})) == "[shared two]" && len(s.get("shared").GetOwnerReferences()) == 1
	})
	s.delete("two")
	s.eventually("what lost its last owner is collected", func() bool { return len(s.names(metav1.ListOptions{})) == 0 })
	s.owned("late", first)
	s.eventually("what came after its owner went is collected",
		func() bool { return len(s.names(metav1.ListOptions{})) == 0 })
}
