package answers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

func (c *Cluster) getRequest(ctx context.Context, namespace, name string) (*api.ResourceRequest, error) {
	object := &api.ResourceRequest{}
	if err := c.o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, kubeobject.Error(err)
	}
	return object, nil
}

// Impact returns what would end with a ResourceRequest. Errors: NotFound; Unavailable.
func (c *Cluster) Impact(ctx context.Context, namespace, name string) (out api.Impact, err error) {
	object, err := c.getRequest(ctx, namespace, name)
	if err == nil {
		out.Volumes, err = c.o.Requests.FindVolumes(ctx, object)
	}
	return out, err
}
