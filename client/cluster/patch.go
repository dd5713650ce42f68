package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// annotate sets an annotation of an object that the user saw. Errors: Conflict if its spec changed since then.
func (c *Client) annotate(ctx context.Context, object kube.Object, key, value string) error {
	return c.patch(ctx, object, func() {
		annotations := maps.Clone(object.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		object.SetAnnotations(annotations)
	})
}

// patchedAtMost is how often a patch is tried while others write annotations of the object.
const patchedAtMost = 5

// patch writes what change changes of an object's annotations and spec, and which labels it removes; change may be called
// again. It is refused if the object is another one, or has another generation, than the user saw. The agent's writes of
// the status do not count, nor do other annotations. Errors: Conflict then; those of the API server.
func (c *Client) patch(ctx context.Context, object kube.Object, change func()) error {
	first := object.DeepCopyObject().(kube.Object)
	for try := 1; ; try++ {
		seen := object.DeepCopyObject().(kube.Object)
		change()
		lines, err := linesOf(seen, object)
		if err != nil {
			return err
		}
		data, err := json.Marshal(lines)
		if err != nil {
			return err
		}
		err = c.objects.Patch(ctx, object, kube.RawPatch(types.JSONPatchType, data))
		if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
			return kubeobject.Error(err)
		}
		// A failed test, a policy and a schema all answer Invalid: the object says which it was.
		if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(seen), object); err != nil {
			return kubeobject.Error(err)
		}
		if object.GetUID() != first.GetUID() || object.GetGeneration() != first.GetGeneration() {
			return api.Errorf(api.CodeConflict, "%s has changed since you saw it (ChangedSince); nothing was written",
				first.GetName()).Fix("look at it again, and repeat the command")
		}
		if try == patchedAtMost || maps.Equal(object.GetAnnotations(), seen.GetAnnotations()) &&
			maps.Equal(object.GetLabels(), seen.GetLabels()) {
			return kubeobject.Error(err)
		}
	}
}

// line is one operation of a JSON patch (RFC 6902). The value of a removal is ignored.
type line struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// pointer escapes a key for a JSON pointer (RFC 6901).
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// linesOf returns the patch that makes after of seen. It names each field of the spec by itself, so that fields which
// this version does not know stay.
func linesOf(seen, after kube.Object) ([]line, error) {
	lines := []line{
		{"test", "/metadata/uid", seen.GetUID()}, {"test", "/metadata/generation", seen.GetGeneration()},
	}
	if len(seen.GetAnnotations()) == 0 && len(after.GetAnnotations()) > 0 {
		lines = append(lines, line{"test", "/metadata/annotations", nil}, line{"add", "/metadata/annotations", struct{}{}})
	}
	for _, key := range slices.Sorted(maps.Keys(after.GetAnnotations())) {
		if value := after.GetAnnotations()[key]; seen.GetAnnotations()[key] != value {
			lines = append(lines, line{"add", "/metadata/annotations/" + pointer.Replace(key), value})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(seen.GetLabels())) {
		if _, stays := after.GetLabels()[key]; !stays {
			lines = append(lines, line{"remove", "/metadata/labels/" + pointer.Replace(key), nil})
		}
	}
	before, err := specOf(seen)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(after)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		if !bytes.Equal(before[key], spec[key]) {
			lines = append(lines, line{"add", "/spec/" + pointer.Replace(key), spec[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if spec[key] == nil {
			lines = append(lines, line{"remove", "/spec/" + pointer.Replace(key), nil})
		}
	}
	return lines, nil
}

// specOf returns the fields of an object's spec as JSON.
func specOf(object kube.Object) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	err = json.Unmarshal(data, &fields)
	return fields.Spec, err
}
