package kubeapi

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/payload"
)

// decode reads a request's body as an object of this type: JSON or YAML, and
// protobuf too where the type is built in.
func (t *table) decode(body []byte) (*unstructured.Unstructured, error) {
	if t.typed() && bytes.HasPrefix(body, protobufPrefix) {
		return t.protobuf(body)
	}
	object, err := content(body)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	if t.typed() && u.GetKind() == "" && u.GetAPIVersion() == "" {
		u.SetGroupVersionKind(t.gvk())
	}
	return t.normal(u)
}

// protobufPrefix begins each object in protobuf.
var protobufPrefix = []byte("k8s\x00")

func (t *table) protobuf(body []byte) (*unstructured.Unstructured, error) {
	gvk := t.gvk()
	typed, got, err := scheme.Codecs.UniversalDeserializer().Decode(body, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(*got)
	return u, t.expect(u)
}

// decode reads the object that a request sends, and its fields as the type has them. Errors: BadRequest.
func (q *request) decode() (*unstructured.Unstructured, error) {
	u, err := q.table.decode(q.body)
	if err != nil {
		return nil, err
	}
	if err := q.fill(u); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return u, nil
}

// fill removes fields that the type does not have, and fills in defaults. A field that is unknown, or twice in what the
// request sends, is an error with fieldValidation=Strict, and else a warning.
func (q *request) fill(u *unstructured.Unstructured) error {
	if q.table.custom == nil {
		return nil
	}
	var wrong []string
	for _, path := range q.table.custom.fill(u.Object) {
		wrong = append(wrong, fmt.Sprintf("unknown field %q", path))
	}
	var sent any
	if twice, err := json.UnmarshalStrict(q.body, &sent); err == nil {
		for _, err := range twice {
			wrong = append(wrong, err.Error())
		}
	}
	switch {
	case q.options.FieldValidation == metav1.FieldValidationStrict && len(wrong) > 0:
		return fmt.Errorf("strict decoding error: %s", strings.Join(wrong, ", "))
	case q.options.FieldValidation != metav1.FieldValidationIgnore:
		q.warnings = wrong
	}
	return nil
}

// content parses JSON, or else YAML, and keeps integers whole.
func content(body []byte) (content map[string]any, err error) {
	if err = utiljson.Unmarshal(body, &content); err != nil {
		if body, err = yaml.YAMLToJSON(body); err == nil {
			err = utiljson.Unmarshal(body, &content)
		}
	}
	if err != nil || content == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is not an object: %v", err))
	}
	return content, nil
}

// normal gives an object the one form in which it is stored and compared: what
// has a Go type goes through it once, which also finds what does not fit. Of
// other types only the metadata has one.
func (t *table) normal(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := t.expect(u); err != nil {
		return nil, err
	}
	if t.typed() {
		form, err := scheme.Scheme.New(t.gvk())
		if err != nil {
			return nil, err
		}
		return u, reshape(&u.Object, form)
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok && u.Object["metadata"] != nil {
		return nil, apierrors.NewBadRequest("metadata is not an object")
	}
	err := reshape(&metadata, &metav1.ObjectMeta{})
	u.Object["metadata"] = metadata
	return u, err
}

func (t *table) expect(u *unstructured.Unstructured) error {
	switch gvk := u.GroupVersionKind(); {
	case gvk == t.gvk():
		return nil
	case gvk.GroupVersion() == t.GroupVersion && !t.typed():
		errs := field.ErrorList{field.Invalid(field.NewPath("kind"), gvk.Kind, "must be "+t.Kind)}
		return apierrors.NewInvalid(gvk.GroupKind(), u.GetName(), errs)
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the data is of %s, expected is %s", gvk, t.gvk()))
	}
}

// reshape passes content through form, a pointer to an empty struct.
func reshape(content *map[string]any, form any) error {
	data, err := payload.Marshal(*content)
	if err == nil {
		err = payload.Unmarshal(data, form)
	}
	if err == nil {
		*content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(form)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: %v", reflect.TypeOf(form).Elem().Name(), err))
	}
	return nil
}
