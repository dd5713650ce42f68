package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/market"
)

// mostPieces is into how many placeholders a reservation is divided that fits on few nodes: what a consumer's pod does not
// take of the last that makes room for it is held by nobody for a moment.
const mostPieces = 16

// allPieces bounds them where nodes are small beside what is reserved.
const allPieces = 256

// least is what a placeholder holds at least, where there is as much to hold: many small pods cost more than they save.
var least = map[string]int64{"cpu": 100, "memory": 128 << 20, "ephemeral-storage": 1 << 30}

// unit is the size of the placeholders of what is reserved: a part of it of which several fit on each node of the pool.
func unit(reserved market.Amounts, rooms []inventory.Room) market.Amounts {
	out := slices.Clone(reserved)
	for i, a := range out {
		out[i].Value = max((a.Value+mostPieces-1)/mostPieces, least[a.Resource], 1)
		for _, room := range rooms {
			if has := amountsOf(room.Allocatable).Of(a.Resource); has > 0 {
				out[i].Value = min(out[i].Value, max(has/4, 1))
			}
		}
		out[i].Value = max(out[i].Value, (a.Value+allPieces-1)/allPieces)
	}
	return out
}

// pieces divide what is to be held into units, and what is left. A slot for a pod is not held by itself: each piece takes one.
func pieces(want, unit market.Amounts) (all []market.Amounts) {
	rest := slices.DeleteFunc(withoutPods(want.Beyond(nil)), func(a market.Amount) bool { return unit.Of(a.Resource) <= 0 })
	for len(rest) > 0 {
		piece := slices.Clone(rest)
		for i, a := range piece {
			piece[i].Value = min(a.Value, unit.Of(a.Resource))
		}
		all = append(all, piece)
		rest = rest.Beyond(piece)
	}
	return all
}

func withoutPods(a market.Amounts) market.Amounts {
	return slices.DeleteFunc(slices.Clone(a), func(x market.Amount) bool { return x.Resource == "pods" })
}

// compare says what is to be held besides what pods hold that fit into want, and which pods do not. Those that stand for a pod
// come first, then those that hold something already, then the large. Where that has left too many small ones, all is divided anew.
func compare(want, unit market.Amounts, have []*corev1.Pod) (missing []market.Amounts, excess []*corev1.Pod) {
	first := func(yes bool) int { return map[bool]int{true: 0, false: 1}[yes] }
	order := slices.SortedStableFunc(slices.Values(have), func(x, y *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(first(x.Labels[standsFor] != ""), first(y.Labels[standsFor] != "")),
			cmp.Compare(first(x.Spec.NodeName != ""), first(y.Spec.NodeName != "")),
			cmp.Compare(requestsOf(y).Of("cpu"), requestsOf(x).Of("cpu")))
	})
	rest := want
	for _, pod := range order {
		if size := requestsOf(pod); rest.Fits(size) {
			rest = rest.Minus(size)
		} else {
			excess = append(excess, pod)
		}
	}
	missing = pieces(rest, unit)
	if all := pieces(want, unit); len(have)-len(excess)+len(missing) > 2*len(all)+mostPieces {
		return all, have
	}
	return missing, excess
}

// nameOf is a name that no placeholder of an account has: the same until the next is seen, so that none is made twice. Nor had one
// a moment ago: who deletes that by its name alone, and late, would delete the new one.
func nameOf(a *held) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", a.slice, i)
		if _, left := a.left[name]; !left && !slices.ContainsFunc(a.have, func(pod *corev1.Pod) bool { return pod.Name == name }) {
			return name
		}
	}
}

// requestsOf is what a pod requests.
func requestsOf(pod *corev1.Pod) market.Amounts {
	return amountsOf(api.Resources(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true})))
}

// amountsOf is what is there; what nobody could count is nothing.
func amountsOf(r api.Resources) market.Amounts {
	amounts, err := market.Have("resources", r)
	if err != nil {
		return nil
	}
	return amounts
}

// newPlaceholder is a pod that holds so much on the nodes of the account's pool. It goes at once when it is deleted, and leaves a
// node that is lost at once.
func newPlaceholder(a *held, size market.Amounts) *corev1.Pod {
	no, yes, user, now := false, true, int64(65535), int64(0)
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList(size.Resources())}
	for name, amount := range resources.Requests {
		if strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) { // those must have equal limits
			if resources.Limits == nil {
				resources.Limits = corev1.ResourceList{}
			}
			resources.Limits[name] = amount
		}
	}
	var tolerations []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &now})
	}
	for _, key := range a.pool.TolerateTaints {
		tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: placesNamespace, Name: nameOf(a),
			Labels: labels.Merge(liqo.Managed(), labels.Set{holdsFor: a.slice}),
		},
		Spec: corev1.PodSpec{
			PriorityClassName: cmp.Or(a.pool.Placeholders.PriorityClass, placesClass),
			NodeSelector:      a.pool.NodeSelector, Tolerations: tolerations,
			TerminationGracePeriodSeconds: &now, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "holds", Image: cmp.Or(a.pool.Placeholders.Image, placesImage), Resources: resources,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// lean drops what no placeholder follows from.
func lean(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Annotations = nil, nil
		pod.Spec.Volumes, pod.Spec.ImagePullSecrets = nil, nil
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i, c := range containers {
				containers[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
			}
		}
	}
	return o, nil
}
