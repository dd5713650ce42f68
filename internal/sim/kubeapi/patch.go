package kubeapi

import (
	"fmt"
	"mime"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// patch reads, changes and writes in one step: it conflicts only with a
// resourceVersion that the patch itself names.
func (a *API) patch(q *request) (*object, error) {
	kind, err := q.patchType()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := q.table.objects[q.key]
	if kind == types.ApplyYAMLPatchType {
		return a.apply(q, old)
	}
	if old == nil {
		return nil, q.notFound()
	}
	patched, err := q.patched(kind, old.raw)
	if err != nil {
		return nil, err
	}
	fresh := &unstructured.Unstructured{}
	fresh.Object, err = content(patched)
	if err != nil && kind == types.JSONPatchType { // the patch itself was one
		return nil, unprocessable(err)
	}
	if err != nil {
		return nil, err
	}
	if fresh, err = q.table.normal(fresh); err != nil {
		return nil, unprocessable(err)
	}
	if err := q.fill(fresh); err != nil {
		return nil, q.refusedPatch(err)
	}
	was := old.decoded()
	if err := a.own(q, was, fresh); err != nil {
		return nil, err
	}
	return a.replace(q, old, was, fresh)
}

func (q *request) patchType() (types.PatchType, error) {
	known := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType}
	if q.table.typed() {
		known = append(known, types.StrategicMergePatchType)
	}
	media, _, _ := mime.ParseMediaType(q.header.Get("Content-Type"))
	kind := types.PatchType(media)
	if !slices.Contains(known, kind) {
		return "", apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType,
			"patch", q.table.groupResource(), q.key.Name,
			fmt.Sprintf("accepted media types are %v", known), 0, true)
	}
	if errs := metav1validation.ValidatePatchOptions(&q.options, kind); len(errs) > 0 {
		return "", apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	return kind, nil
}

func (q *request) patched(kind types.PatchType, raw []byte) (patched []byte, err error) {
	switch kind {
	case types.JSONPatchType:
		return operate(raw, q.body)
	case types.MergePatchType:
		patched, err = jsonpatch.MergePatch(raw, q.body)
	default:
		form, unknown := scheme.Scheme.New(q.table.gvk())
		if unknown != nil {
			return nil, unknown
		}
		patched, err = strategicpatch.StrategicMergePatch(raw, q.body, form)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return patched, nil
}

// maxOperations is how many operations the real server allows in a JSON patch.
const maxOperations = 10_000

// The real server sets this variable of the library, too. It bounds what copies in one JSON patch add, in bytes.
func init() { jsonpatch.AccumulatedCopySizeLimit = maxBody }

// operate carries out the operations of a JSON patch, all of them or none. Errors: BadRequest if it is not a list of
// operations; RequestEntityTooLarge; Invalid with one text for every operation that fails, a test too.
func operate(raw, patch []byte) ([]byte, error) {
	var shape []struct {
		Op   string `json:"op"`
		Path string `json:"path"`
		From string `json:"from"`
	}
	if err := utiljson.Unmarshal(patch, &shape); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(operations)))
	}
	patched, err := operations.Apply(raw)
	if err != nil {
		return nil, unprocessable(err)
	}
	return patched, nil
}

// refusedPatch is the error of a patch whose fields are wrong.
func (q *request) refusedPatch(err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "",
		field.ErrorList{field.Invalid(field.NewPath("patch"), string(q.body), err.Error())})
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity,
		"", schema.GroupResource{}, "", err.Error(), 0, false)
}
