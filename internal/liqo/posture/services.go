package posture

import (
	"context"
	"fmt"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// services finds Services that have the name of a pod, in namespaces that are offloaded. With
// networking, Liqo v1.2 deletes such a Service when the pod is offloaded. A Service that selects
// one pod of a StatefulSet by its name is found before that pod exists.
func (i *Inspection) services(ctx context.Context) (found []api.Problem, err error) {
	have, err := liqo.ReadInstallation(ctx, i.Reader, i.LiqoNamespace)
	if err != nil || !have.Networking {
		return nil, err
	}
	var list offv1beta1.NamespaceOffloadingList
	if err := i.Lists.List(ctx, &list); err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		var services corev1.ServiceList
		if err := i.Reader.List(ctx, &services, client.InNamespace(o.Namespace)); err != nil {
			return found, err
		}
		if len(services.Items) == 0 {
			continue
		}
		var pods corev1.PodList
		if err := i.Lists.List(ctx, &pods, client.InNamespace(o.Namespace)); err != nil {
			return found, err
		}
		names := map[string]bool{}
		for _, p := range pods.Items {
			names[p.Name] = true
		}
		for _, s := range services.Items {
			if names[s.Name] || s.Spec.Selector[appsv1.StatefulSetPodNameLabel] == s.Name {
				found = append(found, health.ServiceNamedLikeAPod.Of(fmt.Sprintf("service %s/%s", s.Namespace, s.Name),
					"give the Service another name, such as "+s.Name+"-svc, before the pod is offloaded",
					"it has the name of a pod of a namespace that is offloaded"))
			}
		}
	}
	return found, nil
}
