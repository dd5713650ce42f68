package agent

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Annotations of the Advertisement that keep what the Distributed Catalog asks about a cluster.
const (
	prettyNameAnnotation       = "distributed-catalog.bourse.dev/pretty-name"
	contractEndpointAnnotation = "distributed-catalog.bourse.dev/contract-endpoint"
)

var _ distributedcatalog.Home = (*home)(nil)

func (h *home) advertisement() *api.Advertisement {
	return &api.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "cluster"}}
}

// Profile implements distributedcatalog.Home.
func (h *home) Profile(ctx context.Context) (distributedcatalog.Profile, error) {
	object := h.advertisement()
	if err := client.IgnoreNotFound(h.Get(ctx, client.ObjectKeyFromObject(object), object)); err != nil {
		return distributedcatalog.Profile{}, kubeobject.Error(err)
	}
	return distributedcatalog.Profile{PrettyName: object.Annotations[prettyNameAnnotation], ContractEndpoint: object.Annotations[contractEndpointAnnotation]}, nil
}

// SetProfile implements distributedcatalog.Home.
func (h *home) SetProfile(ctx context.Context, p distributedcatalog.Profile) error {
	object := h.advertisement()
	err := h.put(ctx, object, func() {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, prettyNameAnnotation, p.PrettyName)
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, contractEndpointAnnotation, p.ContractEndpoint)
	})
	if err != nil {
		return err
	}
	// Whoever said it looks at it next, in our cache.
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		now, err := h.Profile(ctx)
		return now == p, err
	})
}

// Peerings implements distributedcatalog.Home. Without Liqo there are none, nor the rights to look.
func (h *home) Peerings(ctx context.Context) ([]api.Peering, error) {
	if h.doctor.here == nil {
		return nil, nil
	}
	var list api.PeeringList
	if err := h.List(ctx, &list, client.InNamespace(h.namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	return list.Items, nil
}
