package kubeobject

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bourse-dev/bourse/internal/payload"
)

// Status writes the status of objects by server-side apply. A kind may have several writers, each with a
// field manager of its own. What one writer no longer says goes away, and what another says stays.
// The cluster needs CRDs as new as the writer: an API server refuses to apply a field that a CRD lacks.
type Status struct {
	Client client.Client
	// Manager is the field manager.
	Manager string
	// Sole says that nothing else writes the status of this kind. Then Apply also removes fields that this
	// writer never applied, such as those of a version that wrote by updates: apply alone leaves them.
	Sole bool
	// IfUnchanged says that Apply fails with a conflict if the object has changed since it was read.
	IfUnchanged bool
}

// SoleStatus returns the sole writer of the statuses that the agent writes.
func SoleStatus(c client.Client) Status {
	return Status{Client: c, Manager: "bourse-agent", Sole: true}
}

// ShowStatus makes next the status of o, which is written only if it differs. status is that of o,
// as it was read. Errors: those of Error.
func ShowStatus[S any](
	ctx context.Context, c client.Client, o client.Object, status *S, next S,
) error {
	if !Differs(*status, &next) {
		return nil
	}
	*status = next
	return Error(SoleStatus(c).Apply(ctx, o))
}

// ReplaceStatus is ShowStatus of a status that has another writer: of an object that has changed since it was read it
// is not written. Errors: a conflict then; those of the API server.
func ReplaceStatus[S any](
	ctx context.Context, c client.Client, o client.Object, status *S, next S,
) error {
	if !Differs(*status, &next) {
		return nil
	}
	*status = next
	writer := SoleStatus(c)
	writer.IfUnchanged = true
	return writer.Apply(ctx, o)
}

// Differs cuts the texts of next as Apply does, and reports whether it then differs from the stored status. A longer
// text would differ from the stored one each time, and be written again.
func Differs[S any](stored S, next *S) bool {
	if equality.Semantic.DeepEqual(stored, *next) {
		return false
	}
	var cut S
	var data []byte
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err == nil {
		data, err = payload.Marshal(cutTexts(fields))
	}
	if err == nil && payload.Unmarshal(data, &cut) == nil {
		*next = cut
	}
	return !equality.Semantic.DeepEqual(stored, *next)
}

// Apply stores the status of o as all that this writer says of the object. It does nothing where the object
// is gone. Errors: those of the API server.
func (s Status) Apply(ctx context.Context, o client.Object) error {
	stored, err := s.configuration(o)
	if err != nil {
		return err
	}
	wanted := stored.Object["status"]
	err = s.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(stored),
		client.FieldOwner(s.Manager), client.ForceOwnership)
	if err != nil || !s.Sole || equality.Semantic.DeepEqual(stored.Object["status"], wanted) {
		return client.IgnoreNotFound(err)
	}
	exact := stored.DeepCopy()
	exact.Object["status"] = wanted
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(s.Client.Status().Patch(ctx, exact, patch, client.FieldOwner(s.Manager)))
}

// configuration returns what Apply sends: the identity of an object and its status.
func (s Status) configuration(o client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(o, s.Client.Scheme())
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	status, _ := fields["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	cutTexts(status)
	out := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	out.SetGroupVersionKind(kind)
	out.SetNamespace(o.GetNamespace())
	out.SetName(o.GetName())
	if s.IfUnchanged {
		out.SetResourceVersion(o.GetResourceVersion())
	}
	return out, nil
}
