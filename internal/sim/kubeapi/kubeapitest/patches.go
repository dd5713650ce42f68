package kubeapitest

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value"`
}

func testJSONPatch(s *suite) {
	made := s.create(widget("a", object{"size": int64(1), "list": []any{"x", "y"}, "drop": "d"}))
	made.Object["status"] = object{"phase": "Ready"}
	made = s.update(made, "status")
	patch := func(operations ...operation) *unstructured.Unstructured {
		s.Helper()
		got, err := s.patch("a", types.JSONPatchType, operations)
		s.ok(err)
		return got
	}
	same := func(generation int64) []operation {
		return []operation{{Op: "test", Path: "/metadata/uid", Value: made.GetUID()},
			{Op: "test", Path: "/metadata/generation", Value: generation},
			{Op: "test", Path: "/status/phase", Value: "Ready"}}
	}
	got := patch(append(same(1), operation{Op: "replace", Path: "/spec/size", Value: 2},
		operation{Op: "remove", Path: "/spec/drop"}, operation{Op: "add", Path: "/spec/list/1", Value: "m"},
		operation{Op: "copy", Path: "/spec/copy", From: "/spec/size"},
		operation{Op: "move", Path: "/spec/moved", From: "/spec/list/0"})...)
	s.equal(got.Object["spec"], object{"size": 2, "list": []any{"m", "y"}, "copy": 2, "moved": "x"}, "spec")
	s.equal(got.GetGeneration(), 2, "generation")
	s.equal(patch(same(2)...).GetResourceVersion(), got.GetResourceVersion(), "resourceVersion after tests alone")

	got = patch(append(same(2), operation{Op: "test", Path: "/metadata/annotations", Value: nil},
		operation{Op: "add", Path: "/metadata/annotations", Value: object{}},
		operation{Op: "add", Path: "/metadata/annotations/bourse.dev~1act", Value: "1"})...)
	s.equal(got.GetAnnotations(), object{"bourse.dev/act": "1"}, "annotations where there were none")
	s.equal(got.GetGeneration(), 2, "generation after an annotation")

	got = patch(operation{Op: "add", Path: "/status/phase", Value: "Gone"})
	s.equal(got.Object["status"], object{"phase": "Ready"}, "status after a patch of the object")
	got, err := s.patch("a", types.JSONPatchType, []operation{{Op: "add", Path: "/status/phase", Value: "Gone"},
		{Op: "add", Path: "/spec/size", Value: 9}}, "status")
	s.ok(err)
	s.equal([]any{got.Object["status"], got.Object["spec"].(object)["size"]}, []any{object{"phase": "Gone"}, 2},
		"what /status writes")

	s.create(widget("b", object{"made": "1"}))
	s.apply("one", widget("b", object{"field": "1"}))
	_, err = s.patch("b", types.JSONPatchType, []operation{{Op: "replace", Path: "/spec/field", Value: "2"}})
	s.ok(err)
	s.apply("one", widget("b", nil))
	s.equal(s.get("b").Object["spec"], object{"made": "1", "field": "2"}, "spec: field was taken over by the patch")
}

// testJSONPatchFails checks that a patch does nothing if one of its operations fails, and that the answer does not say
// which one.
func testJSONPatchFails(s *suite) {
	made := s.create(widget("a", object{"size": int64(1), "big": strings.Repeat("x", 300_000)}))
	before := s.get("a").GetResourceVersion()
	copies := make([]operation, 11) // which come to more than 3 MiB
	for i := range copies {
		copies[i] = operation{Op: "copy", From: "/spec/big", Path: "/spec/size"}
	}
	for name, operations := range map[string][]operation{
		"another UID":        {{Op: "test", Path: "/metadata/uid", Value: "other"}},
		"another generation": {{Op: "test", Path: "/metadata/generation", Value: 2}},
		"a test of nothing":  {{Op: "test", Path: "/status/phase", Value: "Ready"}},
		"a bad operation":    {{Op: "tset", Path: "/spec/size", Value: 1}},
		"remove of nothing":  {{Op: "remove", Path: "/spec/none"}},
		"replace of nothing": {{Op: "replace", Path: "/spec/none/none", Value: 1}},
		"add below nothing":  {{Op: "add", Path: "/metadata/annotations/a", Value: "1"}},
		"a late failure": {{Op: "add", Path: "/spec/size", Value: 2},
			{Op: "test", Path: "/spec/size", Value: 1}},
		"copies without end": copies,
	} {
		_, err := s.patch("a", types.JSONPatchType, operations)
		s.refused(err, apierrors.IsInvalid, name)
		s.equal(fmt.Sprint(err), "the server rejected our request due to an error in our request", "what it says of "+name)
	}
	_, err := s.patch("a", types.JSONPatchType, make([]operation, 10_001))
	s.refused(err, apierrors.IsRequestEntityTooLargeError, "a patch of 10,001 operations")
	_, err = s.patch("none", types.JSONPatchType, []operation{{Op: "tset"}})
	s.refused(err, apierrors.IsNotFound, "patch of nothing")
	other := func(field, value string) []operation {
		return []operation{{Op: "replace", Path: "/metadata/" + field, Value: value}}
	}
	_, err = s.patch("a", types.JSONPatchType, other("uid", "other"))
	s.refused(err, apierrors.IsInvalid, "patch to another UID")
	_, err = s.patch("a", types.MergePatchType, object{"metadata": object{"uid": "other"}})
	s.refused(err, apierrors.IsInvalid, "merge patch to another UID")
	_, err = s.patch("a", types.JSONPatchType, other("name", "b"))
	s.refused(err, apierrors.IsBadRequest, "patch to another name")
	s.equal(s.get("a").GetResourceVersion(), before, "resourceVersion after all that")
	got, err := s.patch("a", types.JSONPatchType, []operation{{Op: "add", Path: "/metadata/generation", Value: 7}})
	s.ok(err)
	s.equal(got.GetResourceVersion(), before, "resourceVersion after a patch of the generation")
	_, err = s.patch("a", types.JSONPatchType, []operation{{Op: "add", Path: "/spec/size", Value: 2}})
	s.ok(err)
	_, err = s.patch("a", types.JSONPatchType, other("resourceVersion", made.GetResourceVersion()))
	s.refused(err, apierrors.IsConflict, "patch that names an old revision")
}

func testMergePatch(s *suite) {
	made := s.create(widget("a", object{"size": int64(1), "keep": "k", "drop": "d", "list": []any{"x"}}))
	got, err := s.patch("a", types.MergePatchType,
		object{"spec": object{"size": 2, "drop": nil, "list": []any{"y", "z"}}, "status": object{"phase": "no"}})
	s.ok(err)
	s.equal(got.Object["spec"], object{"size": 2, "keep": "k", "list": []any{"y", "z"}}, "spec")
	s.equal(got.Object["status"], nil, "status")
	again, err := s.patch("a", types.MergePatchType, object{"spec": object{"size": 2}})
	s.ok(err)
	s.equal(again.GetResourceVersion(), got.GetResourceVersion(), "resourceVersion after a patch that changes nothing")

	got, err = s.patch("a", types.MergePatchType,
		object{"spec": object{"size": 9}, "status": object{"phase": "Ready"}}, "status")
	s.ok(err)
	s.equal([]any{got.Object["spec"].(object)["size"], got.Object["status"]},
		[]any{2, object{"phase": "Ready"}}, "what /status writes")
	_, err = s.patch("a", types.MergePatchType, object{"metadata": object{"resourceVersion": made.GetResourceVersion()},
		"spec": object{"size": 3}})
	s.refused(err, apierrors.IsConflict, "patch that names an old revision")
	_, err = s.patch("none", types.MergePatchType, object{})
	s.refused(err, apierrors.IsNotFound, "patch of nothing")
	_, err = s.patch("a", types.StrategicMergePatchType, object{})
	s.refused(err, apierrors.IsUnsupportedMediaType, "strategic patch of a custom type")
}

func testStrategicPatch(s *suite) {
	s.pod("p", "")
	pods := s.kube.CoreV1().Pods(s.ns)
	conditions := func(kind, status string) []byte {
		raw, err := json.Marshal(object{"status": object{"conditions": []object{{"type": kind, "status": status}}}})
		s.ok(err)
		return raw
	}
	for _, c := range [][2]string{{"bourse.dev/One", "False"}, {"bourse.dev/Two", "False"}, {"bourse.dev/One", "True"}} {
		_, err := pods.Patch(s.ctx, "p", types.StrategicMergePatchType,
			conditions(c[0], c[1]), metav1.PatchOptions{}, "status")
		s.ok(err)
	}
	pod, err := pods.Get(s.ctx, "p", metav1.GetOptions{})
	s.ok(err)
	got := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		got[c.Type] = c.Status
	}
	s.equal(got, object{"bourse.dev/One": "True", "bourse.dev/Two": "False"}, "conditions, merged by type")
}

func testApply(s *suite) {
	made := s.apply("one", widget("a", object{"mine": "1", "map": object{"x": "1", "y": "1"}, "list": []any{"x"}}))
	s.equal(made.GetGeneration(), 1, "generation of what apply creates")
	s.equal(s.apply("one", widget("a", object{"mine": "1", "map": object{"x": "1", "y": "1"},
		"list": []any{"x"}})).GetResourceVersion(),
		made.GetResourceVersion(), "resourceVersion after the same was applied again")
	s.apply("two", widget("a", object{"map": object{"z": "2"}}))
	got := s.apply("one", widget("a", object{"mine": "2", "map": object{"x": "1"}, "list": []any{"y"}}))
	s.equal(got.Object["spec"], object{"mine": "2", "map": object{"x": "1", "z": "2"}, "list": []any{"y"}},
		"spec after what one left out (y) went, and what two owns (z) stayed")
	s.equal(s.apply("two", widget("a", nil)).Object["spec"],
		object{"mine": "2", "map": object{"x": "1"}, "list": []any{"y"}},
		"spec after two wants nothing any more")
	s.equal(s.get("a").GetGeneration(), 4, "generation")

	_, err := s.patch("a", types.ApplyPatchType, widget("a", nil))
	s.refused(err, apierrors.IsInvalid, "apply without a field manager")
	stale := widget("a", object{"mine": "3"})
	stale.SetResourceVersion(made.GetResourceVersion())
	_, err = s.widgets.Apply(s.ctx, "a", stale, metav1.ApplyOptions{FieldManager: "one", Force: true})
	s.refused(err, apierrors.IsConflict, "apply that names an old revision")
	_, err = s.widgets.Apply(s.ctx, "b", widget("a", nil), metav1.ApplyOptions{FieldManager: "one", Force: true})
	s.refused(err, apierrors.IsBadRequest, "apply under another name")
}

func testApplyConflicts(s *suite) {
	s.apply("one", widget("a", object{"field": "1"}))
	_, err := s.widgets.Apply(s.ctx, "a", widget("a", object{"field": "2"}), metav1.ApplyOptions{FieldManager: "two"})
	s.refused(err, apierrors.IsConflict, "apply to a field of another")
	_, err = s.widgets.Apply(s.ctx, "a", widget("a", object{"field": "1"}), metav1.ApplyOptions{FieldManager: "two"})
	s.ok(err) // the same value is shared
	s.apply("one", widget("a", nil))
	s.equal(s.get("a").Object["spec"], object{"field": "1"}, "spec after one of two owners left")
	s.apply("three", widget("a", object{"field": "3"}))
	s.apply("two", widget("a", nil))
	s.equal(s.get("a").Object["spec"], object{"field": "3"}, "spec after three took the field by force and two left")
}

func testApplyStatus(s *suite) {
	conditions := func(of string, c ...any) *unstructured.Unstructured {
		w := widget("a", nil)
		w.Object["status"] = object{"conditions": c, "by": object{of: "here"}}
		return w
	}
	_, err := s.widgets.ApplyStatus(s.ctx, "a", conditions("one"), metav1.ApplyOptions{FieldManager: "one", Force: true})
	s.refused(err, apierrors.IsNotFound, "apply of the status of nothing")
	s.create(widget("a", object{"size": int64(1)}))
	s.apply("one", conditions("one", object{"type": "A", "status": "False"}), "status")
	s.apply("two", conditions("two", object{"type": "B", "status": "True"}), "status")
	got := s.apply("one", conditions("one", object{"type": "A", "status": "True"},
		object{"type": "C", "status": "True"}), "status")
	s.equal(got.Object["status"], object{"by": object{"one": "here", "two": "here"}, "conditions": []object{
		{"type": "A", "status": "True"}, {"type": "B", "status": "True"}, {"type": "C", "status": "True"},
	}}, "status, conditions merged by type")
	got = s.apply("one", conditions("one", object{"type": "C", "status": "True"}), "status")
	s.equal(got.Object["status"].(object)["conditions"],
		[]object{{"type": "B", "status": "True"}, {"type": "C", "status": "True"}}, "conditions after one left A")
	s.equal(got.Object["spec"], object{"size": 1}, "spec")
	s.equal(got.GetGeneration(), 1, "generation")

	mixed := conditions("one", object{"type": "C", "status": "True"})
	mixed.Object["spec"] = object{"size": int64(5)}
	// The resourceVersion is not compared. A real API server notes the time of this apply, in seconds, because it
	// compares the objects before it drops the spec. So it writes the object again once a second has passed.
	got = s.apply("one", mixed, "status")
	s.equal(got.Object["spec"], object{"size": 1}, "spec after a spec applied to /status")
	s.equal(got.GetGeneration(), 1, "generation after a spec applied to /status")
}

func testApplyAfterUpdate(s *suite) {
	s.create(widget("a", object{"made": "1", "shared": "1"}))
	_, err := s.widgets.Apply(s.ctx, "a", widget("a", object{"shared": "2"}), metav1.ApplyOptions{FieldManager: "one"})
	s.refused(err, apierrors.IsConflict, "apply to a field that was made otherwise")
	w := s.apply("one", widget("a", object{"shared": "2", "own": "2"}))
	s.equal(w.Object["spec"], object{"made": "1", "shared": "2", "own": "2"}, "spec")
	w.Object["spec"].(object)["own"] = "3"
	s.update(w)
	s.apply("one", widget("a", nil))
	s.equal(s.get("a").Object["spec"], object{"made": "1", "own": "3"},
		"spec: own was taken over by the update, shared went with its owner")
}

func testApplyBuiltIn(s *suite) {
	maps := s.kube.CoreV1().ConfigMaps(s.ns)
	force := metav1.ApplyOptions{FieldManager: "one", Force: true}
	_, err := maps.Apply(s.ctx, applycore.ConfigMap("c", s.ns).WithData(map[string]string{"a": "1", "b": "1"}), force)
	s.ok(err)
	cm, err := maps.Apply(s.ctx, applycore.ConfigMap("c", s.ns).WithData(map[string]string{"b": "2"}), force)
	s.ok(err)
	s.equal(cm.Data, object{"b": "2"}, "data after a was left out")

	s.pod("p", "")
	pods := s.kube.CoreV1().Pods(s.ns)
	for _, kind := range []corev1.PodConditionType{"bourse.dev/One", "bourse.dev/Two"} {
		c := applycore.PodCondition().WithType(kind).WithStatus(corev1.ConditionTrue)
		_, err := pods.ApplyStatus(s.ctx, applycore.Pod("p", s.ns).WithStatus(applycore.PodStatus().WithConditions(c)),
			metav1.ApplyOptions{FieldManager: string(kind), Force: true})
		s.ok(err)
	}
	pod, err := pods.Get(s.ctx, "p", metav1.GetOptions{})
	s.ok(err)
	s.equal(len(pod.Status.Conditions), 2, "conditions of two managers")
}
