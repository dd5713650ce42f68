package doctor

import (
	"context"
	"fmt"
	"time"

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
			found = append(found, health.NodeNotReady.Of(subject, "", "%s", node.Message).
				By("see", "kubectl", "describe", "node", i.Spec.Slice))
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

// Unknown looks for reservations of this cluster that it knows from brokers alone.
type Unknown struct {
	// Unknown returns those that the cluster signed and its Ledger does not know, by ID.
	Unknown func(ctx context.Context) (map[string]api.Reservation, error)
}

// Find looks.
func (c Unknown) Find(ctx context.Context) (found []api.Problem, _ error) {
	all, err := c.Unknown(ctx)
	for id, r := range all {
		found = append(found, health.WithoutRequest.Of("reservation "+id, "",
			"it is %s at %s until %s, and no ResourceRequest has it", r.State, r.Provider, r.Until.UTC().Format(time.RFC3339)).
			By("at the agent's socket (docs/lend.md, Talk to an agent in a pod)", "bourse", "release", id, "--without-request"))
	}
	return found, err
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
