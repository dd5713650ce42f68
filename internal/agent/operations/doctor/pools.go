package doctor

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// Pools looks at the conditions of VirtualNodePools.
type Pools struct {
	client.Client
}

// Find returns a problem for each condition that is not as it should be.
func (c Pools) Find(ctx context.Context) (found []api.Problem, err error) {
	var pools api.VirtualNodePoolList
	if err := c.List(ctx, &pools); err != nil {
		return nil, err
	}
	for _, pool := range pools.Items {
		why := "see: bourse vnp why " + pool.Name
		report := func(kind health.Kind, condition string, status metav1.ConditionStatus, remedy string) {
			if c := meta.FindStatusCondition(pool.Status.Conditions, condition); c != nil && c.Status == status {
				found = append(found, kind.Of("VirtualNodePool "+pool.Name, remedy, "%s: %s", c.Reason, c.Message))
			}
		}
		ready := meta.FindStatusCondition(pool.Status.Conditions, api.ConditionReady)
		if ready != nil && ready.Reason == string(api.CodeInvalid) {
			report(health.PoolInvalid, api.ConditionReady, metav1.ConditionFalse,
				"correct the field that the message names: kubectl edit vnp "+pool.Name)
			continue // the other conditions are of an earlier spec
		}
		if limited := meta.FindStatusCondition(pool.Status.Conditions, api.ConditionLimited); limited != nil &&
			limited.Reason != vnp.WaitsForReservations { // else it grows now
			report(health.DemandLimited, api.ConditionLimited, metav1.ConditionTrue, why)
		}
		if drifted := meta.FindStatusCondition(pool.Status.Conditions, api.ConditionDrifted); drifted != nil &&
			drifted.Reason == api.PoolProviderDisabled {
			report(health.ProviderDisabled, api.ConditionDrifted, metav1.ConditionTrue, "")
		}
		report(health.NotExtended, api.ConditionExtended, metav1.ConditionFalse, why)
		report(health.AllNotReady, api.ConditionAllNotReady, metav1.ConditionTrue, "see: kubectl get nodes -l "+
			api.VirtualNodePoolLabel+"="+pool.Name)
		report(health.VolumesKeep, api.ConditionVolumesKeep, metav1.ConditionTrue,
			"copy the data and delete the claims, or give the data up as the message says")
		report(health.NamespaceTaken, api.ConditionNamespaceTaken, metav1.ConditionTrue,
			"take the namespaces out of spec.namespaces of one of the two")
		report(health.PoolNotOffloaded, api.ConditionOffloaded, metav1.ConditionFalse,
			"do what the message says for each namespace, or take it out of spec.namespaces")
	}
	return found, nil
}
