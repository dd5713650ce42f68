package distributedcatalog

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Annotations of the Advertisement that keep the profile.
const (
	prettyNameAnnotation       = "distributed-catalog.bourse.dev/pretty-name"
	contractEndpointAnnotation = "distributed-catalog.bourse.dev/contract-endpoint"
)

// Objects implements [Home] with the objects of the agent's cluster.
type Objects struct {
	client.Client
	// Namespace is the agent's, and Advertisement the name of its Advertisement.
	Namespace, Advertisement string
	// Liqo says that the cluster has Liqo. Without it there are no peerings, and no right to list them.
	Liqo bool
}

func (o Objects) advertisement() *api.Advertisement {
	return &api.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Advertisement}}
}

// Profile implements [Home].
func (o Objects) Profile(ctx context.Context) (Profile, error) {
	object := o.advertisement()
	if err := client.IgnoreNotFound(o.Get(ctx, client.ObjectKeyFromObject(object), object)); err != nil {
		return Profile{}, kubeobject.Error(err)
	}
	annotations := object.Annotations
	return Profile{PrettyName: annotations[prettyNameAnnotation],
		ContractEndpoint: annotations[contractEndpointAnnotation]}, nil
}

// SetProfile implements [Home]. It returns once the agent's cache has the profile, which the caller
// may read next.
func (o Objects) SetProfile(ctx context.Context, p Profile) error {
	object := o.advertisement()
	object.Annotations = map[string]string{prettyNameAnnotation: p.PrettyName,
		contractEndpointAnnotation: p.ContractEndpoint}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": object.Annotations}})
	if err != nil {
		return err
	}
	change := func() error { return o.Patch(ctx, o.advertisement(), client.RawPatch(types.MergePatchType, patch)) }
	if err = change(); apierrors.IsNotFound(err) {
		if err = o.Create(ctx, object); apierrors.IsAlreadyExists(err) { // the agent has advertised meanwhile
			err = change()
		}
	}
	if err != nil {
		return kubeobject.Error(err)
	}
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond,
		10*time.Second, true, func(ctx context.Context) (bool, error) {
			now, err := o.Profile(ctx)
			return now == p, err
		})
}

// Peerings implements [Home].
func (o Objects) Peerings(ctx context.Context) ([]api.Peering, error) {
	if !o.Liqo {
		return nil, nil
	}
	var list api.PeeringList
	if err := o.List(ctx, &list, client.InNamespace(o.Namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	return list.Items, nil
}
