package requests

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

const claimsAtOnce = 500 // read from the API server

// volume is a claim that has its data at a provider.
type volume struct {
	offload.Claim
	provider string
}

// readVolumes returns the claims of namespaces that have their data at a provider. The name of a
// virtual node says whose it is, also when it is gone. Claims that end with a pod, or are being
// deleted, do not count. Errors: Unavailable.
func (r *Controller) readVolumes(ctx context.Context, namespaces []string) (out []volume, err error) {
	providers := map[string]string{"": ""} // by node
	for _, namespace := range namespaces {
		list := corev1.PersistentVolumeClaimList{}
		for first := true; first || list.Continue != ""; first = false {
			more := client.Continue(list.Continue)
			if err := r.Volumes.List(ctx, &list, client.InNamespace(namespace), client.Limit(claimsAtOnce), more); err != nil {
				return nil, unreadVolumes(namespace, err)
			}
			for i := range list.Items {
				c := &list.Items[i]
				bound := c.Status.Phase == corev1.ClaimBound || c.Status.Phase == corev1.ClaimLost
				if !bound || c.DeletionTimestamp != nil || kubeobject.ControllerKind(c) == "Pod" {
					continue
				}
				node := c.Annotations[offload.SelectedNode]
				if _, known := providers[node]; !known {
					if providers[node], err = r.findProvider(ctx, node); err != nil {
						return nil, err
					}
				}
				if provider := providers[node]; provider != "" {
					out = append(out, volume{offload.Claim{Name: c.Namespace + "/" + c.Name, UID: c.UID, Node: node}, provider})
				}
			}
		}
	}
	return out, nil
}

// unreadVolumes returns why the claims of a namespace cannot be read, with what helps.
func unreadVolumes(namespace string, cause error) error {
	err := api.Errorf(api.CodeUnavailable, "cannot see which volumes namespace %s has: %s", namespace, cause)
	if apierrors.IsForbidden(cause) {
		return err.Fix("apply config/liqo again: it allows the agent to list claims; or set data: Move")
	}
	return err.FixBy("they are read again soon; see whether the API server answers", "bourse", "doctor")
}

// FindStickTo returns the providers to which a request must stick: those that it names, and those
// where the namespaces that it offloads have volumes, unless the data may stay behind. Errors:
// Unavailable if the volumes cannot be read.
func (r *Controller) FindStickTo(ctx context.Context, object *api.ResourceRequest) ([]string, error) {
	o := object.Spec.Offload
	if o == nil || o.Data == api.DataMove || r.Volumes == nil {
		return object.Spec.StickTo, nil
	}
	volumes, err := r.readVolumes(ctx, o.Namespaces)
	out := slices.Clone(object.Spec.StickTo)
	for _, v := range volumes {
		if !slices.Contains(out, v.provider) {
			out = append(out, v.provider)
		}
	}
	slices.Sort(out)
	return out, err
}

// findProvider returns the provider whose virtual node has a name, empty if this cluster knows none.
func (r *Controller) findProvider(ctx context.Context, node string) (provider string, err error) {
	err = r.Market.Read(ctx, func(s *market.State) {
		for _, m := range s.Members() {
			if market.IsSlice(node, r.Borrower.Cluster, m.Cluster) {
				provider = m.Cluster
			}
		}
		for _, known := range s.Of(s.Self, 0) {
			if known.Consumer == s.Self && known.Slice() == node {
				provider = known.Provider
			}
		}
	})
	return provider, err
}
