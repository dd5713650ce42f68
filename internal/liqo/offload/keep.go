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
	"github.com/bourse-dev/bourse/internal/liqo"
)

// kept marks a NamespaceMap that the policy bourse-namespacemap protects from deletion.
const kept = api.Group + "/keep"

// keep protects the namespaces at a provider while one of several virtual nodes is removed. Liqo
// v1.2 may mistake the second-last virtual node for the last. It then deletes the NamespaceMap, and
// so every namespace there with its contents. So the map is marked before a second virtual node is
// made, and the mark is removed only with the last slice.
func (s *Slices) keep(ctx context.Context, namespace, slice string, last bool) error {
	var list authv1beta1.ResourceSliceList
	if err := s.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue}); err != nil {
		return err
	}
	others := slices.ContainsFunc(list.Items,
		func(o authv1beta1.ResourceSlice) bool { return o.Name != slice && o.DeletionTimestamp == nil })
	if others {
		if err := s.Guarded(ctx); err != nil {
			return err
		}
	}
	return s.mark(ctx, namespace, func(kept bool) bool { return others || kept && !last })
}

// LetGo removes the mark, so that Liqo can delete the map of the namespaces at a provider. Call it
// once we have no slice there. waits names a virtual node that must be gone first, because Liqo could
// mistake the next one for the last; force does not wait.
func (s *Slices) LetGo(ctx context.Context, provider string, force bool) (waits string, err error) {
	namespace, err := liqo.TenantNamespace(ctx, s.Client, provider)
	if err != nil || namespace == "" {
		return "", err
	}
	if !force {
		if waits, err = s.leaving(ctx, namespace); err != nil || waits != "" {
			return waits, err
		}
	}
	return "", s.mark(ctx, namespace, func(bool) bool { return false })
}

// leaving names a virtual node that is being removed, if there is one. All of ours are, because their
// slices are gone.
func (s *Slices) leaving(ctx context.Context, namespace string) (string, error) {
	var list offv1beta1.VirtualNodeList
	if err := s.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	for _, v := range list.Items {
		if liqo.IsOurs(&v) || v.DeletionTimestamp != nil {
			return "virtual node " + v.Name + " is being removed", nil
		}
	}
	return "", nil
}

// mark sets or removes the mark of each map. keeps decides, given whether the map has it.
func (s *Slices) mark(ctx context.Context, namespace string, keeps func(kept bool) bool) error {
	return liqo.Change(ctx, s.Client, &offv1beta1.NamespaceMapList{}, func(o client.Object) {
		m := o.(*offv1beta1.NamespaceMap)
		if keeps(m.Annotations[kept] != "") {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, kept, "true")
		} else {
			delete(m.Annotations, kept)
		}
	}, client.InNamespace(namespace),
		client.MatchingLabels{consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue})
}
