package cluster

import (
	"context"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotate sets an annotation of an object as a user saw it.
func Annotate(ctx context.Context, c *Client, object kube.Object, key, value string) error {
	return c.annotate(ctx, object, key, value)
}

// LookAgain has the next reader of each kind look at it again.
func (w *Watched) LookAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range w.kinds {
		kind.looked = time.Time{}.Add(1)
	}
}
