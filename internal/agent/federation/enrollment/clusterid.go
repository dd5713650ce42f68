package enrollment

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/market"
)

// lookAgain is how often FindCluster looks for Liqo's cluster ID.
const lookAgain = 5 * time.Second

// FindCluster returns the ID of this cluster: that of the flag, if any, or Liqo's, for which it
// waits, or without Liqo (an empty namespace) the UID of the namespace kube-system, which lives as
// long as the cluster. Errors: Invalid with the flag; those of the API server.
func FindCluster(
	ctx context.Context, c client.Reader, flag, liqoNamespace string, now clock.Clock, log *slog.Logger,
) (string, error) {
	if flag != "" {
		return flag, market.ValidCluster("--cluster-id", flag)
	}
	if liqoNamespace == "" {
		var ns corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
			return "", err
		}
		return string(ns.UID), nil
	}
	for logged := false; ; logged = true {
		id, err := liqo.ReadClusterID(ctx, c, liqoNamespace)
		if err != nil {
			return "", err
		}
		if id != "" {
			return id, market.ValidCluster(liqo.ClusterIDConfig, id)
		}
		if !logged {
			log.Warn("waiting for Liqo's cluster ID; if this cluster has no Liqo, give --cluster-id or --without-liqo",
				"namespace", liqoNamespace, "configmap", liqo.ClusterIDConfig)
		}
		select {
		case <-now.After(lookAgain):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
