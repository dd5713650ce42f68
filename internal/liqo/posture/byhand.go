package posture

import (
	"context"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// peerings finds those made by hand beside ours.
func (i *Inspection) peerings(ctx context.Context) (found []api.Problem, err error) {
	byHand, own := map[string]string{}, map[string]bool{}
	for _, list := range []client.ObjectList{&authv1beta1.TenantList{}, &authv1beta1.IdentityList{}} {
		if err := i.Lists.List(ctx, list); err != nil {
			return nil, err
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			peer, o := peerOf(o.(client.Object)), o.(client.Object)
			if liqo.IsOurs(o) {
				own[peer] = true
			} else if peer != "" {
				byHand[peer] = o.GetNamespace() + "/" + o.GetName()
			}
		}
	}
	for peer, object := range byHand {
		if own[peer] {
			found = append(found, health.MixedPeering.Of("cluster "+peer, "", "%s was made by hand", object))
		}
	}
	return found, nil
}

// peerOf is the cluster that an object peers with; empty for what Liqo itself makes of each slice.
func peerOf(o client.Object) string {
	switch o := o.(type) {
	case *authv1beta1.Tenant:
		return string(o.Spec.ClusterID)
	case *authv1beta1.Identity:
		if o.Spec.Type == authv1beta1.ControlPlaneIdentityType {
			return string(o.Spec.ClusterID)
		}
	}
	return ""
}
