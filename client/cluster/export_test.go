package cluster

import (
	"context"

	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotate sets an annotation of an object as a user saw it.
func Annotate(ctx context.Context, c *Client, object kube.Object, key, value string) error {
	return c.annotate(ctx, object, key, value)
}
