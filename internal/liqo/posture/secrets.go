package posture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
)

// secrets finds those of consumers on which Liqo acts. An agent does not look: it would need the
// right to read all Secrets.
func (i *Inspection) secrets(ctx context.Context) (found []api.Problem, err error) {
	if !i.Before || !i.Lends {
		return nil, nil
	}
	var namespaces corev1.NamespaceList
	if err := i.Lists.List(ctx, &namespaces, client.HasLabels{consts.RemoteClusterID}); err != nil {
		return nil, err
	}
	for _, ns := range namespaces.Items {
		if !guard.Mapped(&ns) {
			continue
		}
		var all metav1.PartialObjectMetadataList
		all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		if err := i.Reader.List(ctx, &all, client.InNamespace(ns.Name)); err != nil {
			return found, err
		}
		for _, s := range all.Items {
			if acted := labelsOfLiqo(s.Labels); len(acted) > 0 {
				found = append(found, health.SecretOfLiqo.Of("Secret "+s.Namespace+"/"+s.Name,
					fmt.Sprintf("find out who made it, then delete it: kubectl -n %s delete secret %s", s.Namespace, s.Name),
					"cluster %s may have written it, and Liqo acts on its labels: %s", liqo.Peer(&ns), strings.Join(acted, ", ")))
			}
		}
	}
	return found, nil
}

// ownLabels are those that Liqo's virtual kubelet sets on Secrets, as policy bourse-reflected has them.
var ownLabels = []string{"offloading.liqo.io/origin", "offloading.liqo.io/destination",
	"offloading.liqo.io/nodename", "offloading.liqo.io/service-account-name"}

// labelsOfLiqo are those of a Secret beyond these.
func labelsOfLiqo(all map[string]string) (found []string) {
	for key := range all {
		domain, _, _ := strings.Cut(key, "/")
		if (domain == "liqo.io" || strings.HasSuffix(domain, ".liqo.io")) && !slices.Contains(ownLabels, key) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}
