package offload

import (
	"context"
	"slices"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// kept marks a NamespaceMap that the policy bourse-namespacemap does not let anybody delete.
const kept = api.Group + "/keep"

// keep sees to it that the namespaces at a provider outlive one of several virtual nodes. Liqo v1.2 may take the second last
// for the last when it goes, and then deletes the NamespaceMap, and with it every namespace there and what is in it. So
// whoever makes a second one has the map kept first, and only whoever removes the last slice that is to stay lets it go.
func (s *Slices) keep(ctx context.Context, namespace, slice string, last bool) error {
	var list authv1beta1.ResourceSliceList
	if err := s.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue}); err != nil {
		return err
	}
	others := slices.ContainsFunc(list.Items, func(o authv1beta1.ResourceSlice) bool { return o.Name != slice && o.DeletionTimestamp == nil })
	if others {
		if err := s.Guarded(ctx); err != nil {
			return err
		}
	}
	var maps offv1beta1.NamespaceMapList
	if err := s.List(ctx, &maps, client.InNamespace(namespace), client.MatchingLabels{consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue}); err != nil {
		return err
	}
	for i := range maps.Items {
		m := &maps.Items[i]
		if (m.Annotations[kept] != "") == others || !others && !last {
			continue
		}
		before := m.DeepCopy()
		delete(m.Annotations, kept)
		if others {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, kept, "true")
		}
		if err := s.Patch(ctx, m, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
