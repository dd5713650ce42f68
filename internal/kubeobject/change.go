package kubeobject

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Change writes what change changes of an object that was read. It writes nothing if change changes
// nothing, and ignores an object that is gone. Errors: those of the API server.
func Change(ctx context.Context, c client.Client, o client.Object, change func()) error {
	before := o.DeepCopyObject().(client.Object)
	change()
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, o, client.MergeFrom(before)))
}
