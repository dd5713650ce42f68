package doctor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// Borrowed looks at what this cluster's requests show of their use.
type Borrowed struct {
	client.Client
}

// Find looks at the conditions of ResourceRequests and their instructions.
func (c Borrowed) Find(ctx context.Context) (found []api.Problem, err error) {
	var requests api.ResourceRequestList
	if err := c.List(ctx, &requests); err != nil {
		return nil, err
	}
	for _, r := range requests.Items {
		condition := meta.FindStatusCondition(r.Status.Conditions, api.ConditionVolumesAtStake)
		if condition == nil || condition.Status == metav1.ConditionFalse {
			continue
		}
		remedy := fmt.Sprintf("copy the data, or extend the reservation: bourse extend %s --for 24h", r.Status.Reservation)
		if r.DeletionTimestamp != nil {
			remedy = "copy the data and delete the claims, or give the data up as the message says"
		}
		found = append(found, health.VolumesAtStake.Of("request "+r.Namespace+"/"+r.Name, remedy, "%s", condition.Message))
	}
	var instructions api.ReservationInstructionList
	if err := c.List(ctx, &instructions); err != nil {
		return found, err
	}
	for _, i := range instructions.Items {
		if i.Status.State != api.Active {
			continue
		}
		subject := "reservation " + i.Name
		if node := meta.FindStatusCondition(i.Status.Conditions, api.ConditionNodeReady); isFalse(node) {
			found = append(found, health.NodeNotReady.Of(subject, "see: kubectl describe node "+i.Spec.Slice,
				"%s", node.Message))
		}
		if copied := meta.FindStatusCondition(i.Status.Conditions, api.ConditionReflected); isFalse(copied) {
			found = append(found, notReflected(subject, copied))
		}
		offloaded := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOffloaded)
		if isFalse(offloaded) && offloaded.Reason == api.ReflectsMore {
			found = append(found, health.ReflectsMore.Of(subject, "", "%s", offloaded.Message))
		}
		if isFalse(offloaded) && offloaded.Reason == string(api.CodeNamespacesFull) {
			found = append(found, health.NamespacesFull.Of(subject, "offload fewer namespaces to "+i.Spec.Provider+
				", or ask its admin to raise namespaces.max of the SharingPolicy", "%s", offloaded.Message))
		}
	}
	return found, nil
}

// notReflected returns the problem of a reservation whose condition Reflected is False.
func notReflected(subject string, copied *metav1.Condition) api.Problem {
	switch copied.Reason {
	case api.ReflectsMore:
		return health.ReflectsMore.Of(subject, "", "%s", copied.Message)
	case api.QuotaUsedUp:
		return health.QuotaUsedUp.Of(subject, "delete the pods that have ended: "+
			"kubectl delete pods -n NAMESPACE --field-selector status.phase=Succeeded", "%s", copied.Message)
	}
	return health.NotReflected.Of(subject, "change the objects as their Events say: "+
		"kubectl get events -A --field-selector reason=FailedReflection", "%s", copied.Message)
}

// isFalse reports whether there is a condition that is False.
func isFalse(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionFalse }
