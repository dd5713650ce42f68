package kubeobject

import (
	"cmp"
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Put changes an object, or creates it where it does not exist. change may be called more than once.
// Errors: those of Error.
func Put(ctx context.Context, c client.Client, object client.Object, change func()) error {
	return Edit(ctx, func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		before, _ := object.DeepCopyObject().(client.Object)
		change()
		if apierrors.IsNotFound(err) {
			return c.Create(ctx, object)
		} else if err != nil {
			return err
		}
		return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// Edit calls write, which reads an object from a cache and writes it under the version that it
// read. It calls write again, for some seconds, while the API server has a newer version than the
// cache: the edit before this one may not be in the cache yet. Errors: those of Error.
func Edit(ctx context.Context, write func() error) error {
	var err error
	ended := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond,
		5*time.Second, true, func(context.Context) (bool, error) {
			err = write()
			return !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err), nil
		})
	return Error(cmp.Or(err, ended))
}
