package answers

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
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
	if err != nil {
		return out, err
	}
	if out.Pods, err = c.findPods(ctx, object); err == nil {
		out.Volumes, err = c.o.Requests.FindVolumes(ctx, object)
	}
	return out, err
}

// findPods returns the pods on the virtual nodes of a request, nil if there are none. It names each. Errors: Unavailable.
func (c *Cluster) findPods(ctx context.Context, object *api.ResourceRequest) (*api.Pods, error) {
	records, err := readLedger(ctx, func(ctx context.Context) ([]*market.Reservation, error) {
		return c.o.Ledger.Made(ctx, object.Namespace, object.Name)
	})
	var nodes, names []string
	for _, r := range records {
		if r.Bound() && r.Object.UID == string(object.UID) && !slices.Contains(nodes, r.Slice()) {
			nodes = append(nodes, r.Slice())
			names = append(names, c.o.PodsOn(r.Slice())...)
		}
	}
	if err != nil || len(names) == 0 {
		return nil, err
	}
	slices.Sort(names)
	return &api.Pods{Count: len(names), Names: names}, nil
}
