package requests

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// selectedNode is Kubernetes' annotation on a claim whose volume was made on the node of its first pod. For an offloaded
// pod that is the virtual node.
const selectedNode = "volume.kubernetes.io/selected-node"

// FindStickTo returns the providers to which a request must stick: those that it names, and those where the namespaces
// that it offloads have volumes, unless the data may stay behind. The name of a virtual node says whose it is, also when
// it is gone. Errors: Unavailable if the volumes cannot be read.
func (r *Controller) FindStickTo(ctx context.Context, object *api.ResourceRequest) ([]string, error) {
	o := object.Spec.Offload
	if o == nil || o.Data == api.DataMove || r.Volumes == nil {
		return object.Spec.StickTo, nil
	}
	out := slices.Clone(object.Spec.StickTo)
	for _, namespace := range o.Namespaces {
		var claims corev1.PersistentVolumeClaimList
		if err := r.Volumes.List(ctx, &claims, client.InNamespace(namespace)); err != nil {
			return nil, api.Errorf(api.CodeUnavailable, "cannot see which volumes namespace %s has: %s", namespace, err).
				Fix("apply config/liqo again, or say data: Move")
		}
		for _, claim := range claims.Items {
			if node := claim.Annotations[selectedNode]; node != "" && claim.Status.Phase == corev1.ClaimBound {
				provider, err := r.findProvider(ctx, node)
				if err != nil {
					return nil, err
				}
				if provider != "" && !slices.Contains(out, provider) {
					out = append(out, provider)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// findProvider returns the provider whose virtual node has a name, empty if this cluster knows none.
func (r *Controller) findProvider(ctx context.Context, node string) (provider string, err error) {
	err = r.Market.Read(ctx, func(s *market.State) {
		for _, m := range s.Members() {
			if market.IsSlice(node, r.Cluster, m.Cluster) {
				provider = m.Cluster
			}
		}
	})
	return provider, err
}
