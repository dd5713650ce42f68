package localapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// Peers returns the clusters that this one has met, or whose key an admin named.
func (c *Cluster) Peers(ctx context.Context) ([]api.Envelope[api.KnownPeer], error) {
	var list api.PeerList
	err := c.o.Client.List(ctx, &list, client.InNamespace(c.o.Namespace))
	return api.Envelopes(list.Items, (*api.Peer).Envelope), kubeobject.Error(err)
}

// Trust writes which key an admin confirmed, and the address of its connector, into the Peer of a cluster. An
// empty address leaves the one that it has, unless the fingerprint is empty, too. Errors: Invalid.
func (c *Cluster) Trust(
	ctx context.Context, cluster string, spec api.PeerSpec,
) (out api.Envelope[api.KnownPeer], _ error) {
	if _, err := identity.ParseFingerprint(spec.Fingerprint); err != nil && spec.Fingerprint != "" {
		return out, api.Errorf(api.CodeInvalid, "%s", err).
			Fix("copy the fingerprint that `bourse status` prints at %s", cluster)
	}
	if err := market.ValidAddress("address", spec.Address); err != nil {
		return out, err
	}
	if cluster == c.o.Cluster {
		return out, api.Invalid("cluster", "%s is this cluster", cluster).Fix("name another one")
	}
	return c.editPeer(ctx, cluster, func(s *api.PeerSpec) {
		s.Fingerprint = spec.Fingerprint
		if spec.Address != "" || spec.Fingerprint == "" {
			s.Address = spec.Address
		}
	})
}

// Suspend writes into the Peer of a cluster that it gets nothing more here. Errors: Invalid.
func (c *Cluster) Suspend(ctx context.Context, cluster string, s api.Suspension) (api.Envelope[api.KnownPeer], error) {
	return c.editPeer(ctx, cluster, func(spec *api.PeerSpec) { spec.Suspend, spec.SuspendReason = true, s.Reason })
}

// Resume ends a suspension. Errors: Invalid.
func (c *Cluster) Resume(ctx context.Context, cluster string) (api.Envelope[api.KnownPeer], error) {
	return c.editPeer(ctx, cluster, func(spec *api.PeerSpec) { spec.Suspend, spec.SuspendReason = false, "" })
}

// editPeer changes what an admin wrote into the Peer of a cluster.
func (c *Cluster) editPeer(ctx context.Context, cluster string,
	change func(*api.PeerSpec)) (out api.Envelope[api.KnownPeer], _ error) {
	if err := market.ValidCluster("cluster", cluster); err != nil {
		return out, err
	}
	object := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: c.o.Namespace, Name: cluster}}
	if err := kubeobject.Put(ctx, c.o.Client, object, func() { change(&object.Spec) }); err != nil {
		return out, err
	}
	return object.Envelope(), nil
}
