package agent

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/market"
)

// Where Liqo keeps the ID of its cluster, from github.com/liqotech/liqo v1.2.0, pkg/consts.
const (
	liqoClusterID  = "liqo-clusterid-configmap"
	liqoClusterKey = "CLUSTER_ID"
)

// clusterID finds the name of this cluster: the flag's, else Liqo's, for which it waits; without Liqo
// the UID of the kube-system namespace, which lives as long as the cluster.
func clusterID(ctx context.Context, c client.Reader, o *Options, log *slog.Logger) (string, error) {
	if o.ClusterID != "" {
		return o.ClusterID, market.ValidCluster("--cluster-id", o.ClusterID)
	}
	if o.WithoutLiqo {
		var ns corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
			return "", err
		}
		return string(ns.UID), nil
	}
	for said := false; ; said = true {
		var m corev1.ConfigMap
		err := c.Get(ctx, client.ObjectKey{Namespace: o.LiqoNamespace, Name: liqoClusterID}, &m)
		if err == nil && m.Data[liqoClusterKey] != "" {
			return m.Data[liqoClusterKey], market.ValidCluster(liqoClusterID, m.Data[liqoClusterKey])
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		if !said {
			log.Warn("waiting for Liqo's cluster ID; if this cluster has no Liqo, say --cluster-id or --without-liqo",
				"namespace", o.LiqoNamespace, "configmap", liqoClusterID)
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
