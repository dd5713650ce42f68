package cluster

import (
	"context"
	"sync"

	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// BeforeWrite has tell called once, before the first write of an object. Call it before the client is used.
func (c *Client) BeforeWrite(tell func(context.Context)) {
	c.objects = &writes{Client: c.objects, tell: tell}
}

// writes tells of the first write.
type writes struct {
	kube.Client
	once sync.Once
	tell func(context.Context)
}

func (w *writes) begin(ctx context.Context) { w.once.Do(func() { w.tell(ctx) }) }

// Create implements kube.Writer.
func (w *writes) Create(ctx context.Context, o kube.Object, how ...kube.CreateOption) error {
	w.begin(ctx)
	return w.Client.Create(ctx, o, how...)
}

// Patch implements kube.Writer.
func (w *writes) Patch(ctx context.Context, o kube.Object, p kube.Patch, how ...kube.PatchOption) error {
	w.begin(ctx)
	return w.Client.Patch(ctx, o, p, how...)
}

// Delete implements kube.Writer.
func (w *writes) Delete(ctx context.Context, o kube.Object, how ...kube.DeleteOption) error {
	w.begin(ctx)
	return w.Client.Delete(ctx, o, how...)
}
