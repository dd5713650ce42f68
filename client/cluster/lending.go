package cluster

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Lent returns what the cluster lends, or waits for approval: one ProviderInstruction a reservation, by consumer. It is
// in the agent's namespace.
func (c *Client) Lent(ctx context.Context) ([]api.ProviderInstruction, error) {
	var all api.ProviderInstructionList
	if err := c.objects.List(ctx, &all, kube.InNamespace(c.AgentNamespace(ctx))); err != nil {
		return nil, kubeobject.Error(err)
	}
	slices.SortFunc(all.Items, func(a, b api.ProviderInstruction) int {
		return cmp.Or(cmp.Compare(a.Spec.Consumer, b.Spec.Consumer), cmp.Compare(a.Name, b.Name))
	})
	return all.Items, nil
}

// Peerings returns the peerings that Bourse made, by name.
func (c *Client) Peerings(ctx context.Context) ([]api.Peering, error) {
	var all api.PeeringList
	err := c.objects.List(ctx, &all, kube.InNamespace(c.AgentNamespace(ctx)))
	slices.SortFunc(all.Items, func(a, b api.Peering) int { return cmp.Compare(a.Name, b.Name) })
	return all.Items, kubeobject.Error(err)
}

// sharing is the name of the SharingPolicy that counts.
const sharing = "default"

// Sharing returns what the cluster lends, and to whom; nil if it has no SharingPolicy.
func (c *Client) Sharing(ctx context.Context) (*api.SharingPolicy, error) {
	o := &api.SharingPolicy{}
	err := c.objects.Get(ctx, kube.ObjectKey{Name: sharing}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, kubeobject.Error(err)
	}
	return o, nil
}

// PutSharing replaces what the cluster lends. generation is that of the SharingPolicy that the user saw; 0: there was
// none. Errors: Conflict if it is another one by now, or if Git would undo that; those of the API server.
func (c *Client) PutSharing(ctx context.Context, generation int64, spec api.Sharing) error {
	o, err := c.Sharing(ctx)
	if err != nil {
		return err
	}
	if o == nil && generation == 0 {
		o = &api.SharingPolicy{Spec: spec}
		o.Name = sharing
		return kubeobject.Error(c.objects.Create(ctx, o))
	}
	if o == nil || o.Generation != generation {
		return api.Errorf(api.CodeConflict, "SharingPolicy %s has changed since you saw it; nothing was written", sharing).
			Fix("look at it again, then change it")
	}
	if err := c.checkGit(o); err != nil {
		return err
	}
	return c.patch(ctx, o, func() { o.Spec = spec })
}

// TrySharing returns the error of PutSharing, and writes nothing.
func (c *Client) TrySharing(ctx context.Context, generation int64, spec api.Sharing) error {
	try := *c
	try.objects = kube.NewDryRunClient(c.objects)
	return try.PutSharing(ctx, generation, spec)
}
