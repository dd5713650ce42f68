package grant

import (
	"context"
	"maps"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// KeepsSize in the resources of a slice's spec says that the consumer's agent gives the virtual node the size of the
// reservations, also if more is granted. Liqo's own creator gives it all that is granted. It stands there because of
// all that a slice has, Liqo copies only the spec to a provider's slice that exists. Nobody is granted it: agents of
// former releases pass over what is not reserved.
const KeepsSize = corev1.ResourceName(api.Group + "/keeps-size")

// mostWishes is how many resources the policies let a slice name.
const mostWishes = 32

// Wish returns what the spec of a slice asks for where the agent keeps the size of the virtual node.
func Wish(want api.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, want)
	if len(out) < mostWishes {
		out[KeepsSize] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	return out
}

// coverEvery is the interval at which a slice is looked at whose grant covers pods that have ended. The consumer
// may delete them, which triggers nothing.
const coverEvery = time.Minute

// keepsSize reports whether the consumer keeps the size of the virtual node itself.
func keepsSize(slice *authv1beta1.ResourceSlice) bool {
	keeps := slice.Spec.Resources[KeepsSize]
	return keeps.Sign() > 0
}

// Ended adds up what the pods of a slice's user take of Liqo's quota that have ended. Liqo counts a ShadowPod
// until its deletion begins; an ended one never runs again. r reads from the API server.
func Ended(ctx context.Context, r client.Reader, user string) (api.Resources, error) {
	pods, shadows, err := made(ctx, r, user)
	if err != nil {
		return nil, err
	}
	pod := map[client.ObjectKey]*corev1.Pod{}
	for i := range pods {
		pod[client.ObjectKeyFromObject(&pods[i])] = &pods[i]
	}
	sum := corev1.ResourceList{}
	for i := range shadows {
		s := &shadows[i]
		if s.DeletionTimestamp == nil && hasEnded(s, pod[client.ObjectKeyFromObject(s)]) {
			add(sum, counted(&s.Spec.Pod))
		}
	}
	return api.Resources(sum), nil
}

// hasEnded reports whether the pod of a ShadowPod has ended. Liqo makes it again if it is gone and the ShadowPod
// does not say that it ended. A pod of the same name may be that of an earlier ShadowPod.
func hasEnded(s *offv1beta1.ShadowPod, pod *corev1.Pod) bool {
	if pod == nil {
		return kubeobject.HasEnded(s.Status.Phase)
	}
	return metav1.IsControlledBy(pod, s) && kubeobject.HasEnded(pod.Status.Phase)
}

// counted returns what Liqo's quota counts of a pod (webhook shadowpod, getQuotaFromShadowPod): the containers
// together, or the largest init container. It compares those by Value, which rounds up. A larger amount than
// Liqo's would let the consumer run more than it reserved.
func counted(pod *corev1.PodSpec) corev1.ResourceList {
	all, init := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Containers {
		add(all, pod.Containers[i].Resources.Requests)
	}
	for i := range pod.InitContainers {
		for name, amount := range pod.InitContainers[i].Resources.Requests {
			if has, ok := init[name]; !ok || has.Value() < amount.Value() {
				init[name] = amount
			}
		}
	}
	for name, amount := range init {
		if has := all[name]; has.Cmp(amount) < 0 {
			all[name] = amount
		}
	}
	return all
}

func add(sum, more corev1.ResourceList) {
	for name, amount := range more {
		total := sum[name]
		total.Add(amount)
		sum[name] = total
	}
}

// cover adds to a grant what pods that have ended take of it, so that the rest of Liqo's quota is what was granted.
func cover(grant corev1.ResourceList, ended api.Resources) corev1.ResourceList {
	for name, amount := range ended {
		if has := grant[name]; has.Sign() > 0 {
			has.Add(amount)
			grant[name] = has
		}
	}
	return grant
}
