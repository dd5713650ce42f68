package liqo

import (
	"context"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClassOf returns the class in force of a slice: the one that the consumer asks for. If it asks for none, a later Liqo
// than 1.2 decides at the provider, and writes its class into status.class. r reads from the API server; a slice
// with a class is not read. Errors: those of the API server, but for a slice that has gone.
func ClassOf(ctx context.Context, r client.Reader, slice *authv1beta1.ResourceSlice) (authv1beta1.ResourceSliceClass, error) {
	if slice.Spec.Class != "" {
		return slice.Spec.Class, nil
	}
	var whole unstructured.Unstructured
	whole.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind))
	if err := r.Get(ctx, client.ObjectKeyFromObject(slice), &whole); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	class, _, _ := unstructured.NestedString(whole.Object, "status", "class")
	return authv1beta1.ResourceSliceClass(class), nil
}
