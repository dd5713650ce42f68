package kubeapitest

import (
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// gadgets are objects of the type that has a schema.
func (s *suite) gadgets() dynamic.ResourceInterface {
	return s.dynamic.Resource(version.WithResource("gadgets")).Namespace(s.ns)
}

func gadget(name string, spec object) *unstructured.Unstructured {
	u := widget(name, spec)
	u.SetKind("Gadget")
	return u
}

// testDefaults checks what the server fills in and removes.
func testDefaults(s *suite) {
	sent := gadget("a", object{"size": int64(1), "unknown": "x", "color": nil, "note": nil,
		"parts": []any{object{"name": "p", "unknown": int64(1)}}, "labels": object{"k": "v", "n": nil}})
	made, err := s.gadgets().Create(s.ctx, sent, metav1.CreateOptions{})
	s.ok(err)
	want := object{"size": 1, "color": "red", "note": nil, "box": object{"deep": true}, "labels": object{"k": "v"},
		"parts": []any{object{"name": "p", "count": 1}}}
	s.equal(made.Object["spec"], want, "what is stored")
	patched, err := s.gadgets().Patch(s.ctx, "a", types.MergePatchType,
		[]byte(`{"spec":{"color":"green","other":1,"box":{"deep":null}}}`), metav1.PatchOptions{})
	s.ok(err)
	want["color"] = "green"
	s.equal(patched.Object["spec"], want, "what is stored after a patch")
	s.equal(patched.GetGeneration(), 2, "its generation")
	again, err := s.gadgets().Patch(s.ctx, "a", types.MergePatchType, []byte(`{"spec":{"other":1}}`),
		metav1.PatchOptions{})
	s.ok(err)
	s.equal(again, patched, "the object after a patch of what is unknown")
}

// testSchema checks what the server refuses.
func testSchema(s *suite) {
	for what, c := range map[string]struct {
		spec string
		want []string
	}{
		"nothing":         {`null`, []string{"spec: Required value"}},
		"a missing field": {`{}`, []string{"spec.size: Required value"}},
		"a type":          {`{"size":"1"}`, []string{"spec.size: Invalid value"}},
		"a number":        {`{"size":10}`, []string{"spec.size: Invalid value"}},
		"a word": {`{"size":1,"color":"blue"}`,
			[]string{`spec.color: Unsupported value: "blue": supported values: "red", "green"`}},
		"a length":      {`{"size":1,"name":"abcde"}`, []string{"spec.name: Too long: may not be more than 4 bytes"}},
		"a pattern":     {`{"size":1,"name":"A"}`, []string{"spec.name: Invalid value"}},
		"a set":         {`{"size":1,"tags":["a","a"]}`, []string{`spec.tags[1]: Duplicate value: "a"`}},
		"a long list":   {`{"size":1,"tags":["a","b","c"]}`, []string{"spec.tags: Too many: 3: must have at most 2 items"}},
		"a key twice":   {`{"size":1,"parts":[{"name":"a"},{"name":"a"}]}`, []string{"spec.parts[1]: Duplicate value"}},
		"a map's value": {`{"size":1,"labels":{"k":1}}`, []string{"spec.labels.k: Invalid value"}},
		"an amount":     {`{"size":1,"amount":true}`, []string{"spec.amount: Invalid value"}},
		"two at once":   {`{"size":0,"color":"blue"}`, []string{"spec.size: Invalid value", "spec.color: Unsupported value"}},
	} {
		sent := gadget("a", nil)
		s.ok(json.Unmarshal([]byte(`{"spec":`+c.spec+`}`), &sent.Object))
		_, err := s.gadgets().Create(s.ctx, sent, metav1.CreateOptions{})
		s.refused(err, apierrors.IsInvalid, what)
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				s.Errorf("%s: %v, want %s", what, err, want)
			}
		}
	}
	_, err := s.gadgets().Create(s.ctx, gadget("a", object{"size": int64(1)}), metav1.CreateOptions{})
	s.ok(err)
	_, err = s.gadgets().Patch(s.ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":0}}`), metav1.PatchOptions{})
	s.refused(err, apierrors.IsInvalid, "a patch to what is wrong")
	_, err = s.gadgets().Patch(s.ctx, "a", types.MergePatchType, []byte(`{"status":{"conditions":7}}`),
		metav1.PatchOptions{}, "status")
	s.refused(err, apierrors.IsInvalid, "a wrong status")
}

// testStrict checks what a client is told of fields that nobody knows.
func testStrict(s *suite) {
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	unknown := gadget("a", object{"size": int64(1), "unknown": "x"})
	_, err := s.gadgets().Create(s.ctx, unknown, strict)
	s.refused(err, apierrors.IsBadRequest, "an unknown field")
	if err != nil && !strings.Contains(err.Error(), `strict decoding error: unknown field "spec.unknown"`) {
		s.Errorf("an unknown field: %v", err)
	}
	for _, validation := range []string{metav1.FieldValidationWarn, metav1.FieldValidationIgnore} {
		o := metav1.CreateOptions{FieldValidation: validation, DryRun: []string{metav1.DryRunAll}}
		_, err := s.gadgets().Create(s.ctx, unknown, o)
		s.ok(err)
	}
	_, err = s.gadgets().Create(s.ctx, gadget("a", object{"size": int64(1)}), strict)
	s.ok(err)
	for kind, patch := range map[types.PatchType]string{
		types.MergePatchType: `{"spec":{"unknown":1}}`,
		types.JSONPatchType:  `[{"op":"add","path":"/spec/unknown","value":1}]`,
	} {
		_, err := s.gadgets().Patch(s.ctx, "a", kind, []byte(patch),
			metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		s.refused(err, apierrors.IsInvalid, "an unknown field in a patch")
		if err != nil && !strings.Contains(err.Error(), `unknown field "spec.unknown"`) {
			s.Errorf("%s: %v", kind, err)
		}
	}
}

// testApplyLists applies lists that the schema merges by their keys.
func testApplyLists(s *suite) {
	apply := func(manager string, spec object) *unstructured.Unstructured {
		s.Helper()
		got, err := s.gadgets().Apply(s.ctx, "a", gadget("a", spec), metav1.ApplyOptions{FieldManager: manager})
		s.ok(err)
		return got
	}
	apply("one", object{"size": int64(1), "tags": []any{"x"}, "parts": []any{object{"name": "p", "count": int64(2)}}})
	both := apply("two", object{"size": int64(1), "tags": []any{"y"}, "parts": []any{object{"name": "q"}}})
	spec := both.Object["spec"].(object)
	s.equal(spec["tags"], []any{"x", "y"}, "a set")
	s.equal(spec["parts"], []any{object{"name": "p", "count": 2}, object{"name": "q", "count": 1}}, "a list with keys")
	left := apply("one", object{"size": int64(1)})
	s.equal(left.Object["spec"].(object)["tags"], []any{"y"}, "what one does not apply any more")
	_, err := s.gadgets().Apply(s.ctx, "a", gadget("a", object{"size": int64(1), "unknown": "x"}),
		metav1.ApplyOptions{FieldManager: "one"})
	if err == nil || !strings.Contains(err.Error(), ".spec.unknown: field not declared in schema") {
		s.Errorf("an unknown field is applied: %v", err)
	}
}
