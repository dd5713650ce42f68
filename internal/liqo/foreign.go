package liqo

import (
	"context"
	"encoding/json"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ForeignClusters returns a function that lists the ForeignClusters of a cluster, as JSON. The list
// is empty without Liqo.
func ForeignClusters(config *rest.Config) (func(context.Context) ([]json.RawMessage, error), error) {
	scheme := runtime.NewScheme()
	if err := liqov1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]json.RawMessage, error) {
		var list liqov1beta1.ForeignClusterList
		if err := c.List(ctx, &list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		out := make([]json.RawMessage, 0, len(list.Items))
		for i := range list.Items {
			list.Items[i].ManagedFields = nil
			object, err := json.Marshal(&list.Items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, object)
		}
		return out, nil
	}, nil
}
