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

// Find looks at the conditions of ResourceRequests.
func (c Borrowed) Find(ctx context.Context) (found []api.Problem, err error) {
	var requests api.ResourceRequestList
	if err := c.List(ctx, &requests); err != nil {
		return nil, err
	}
	for _, r := range requests.Items {
		at := meta.FindStatusCondition(r.Status.Conditions, api.ConditionVolumesAtStake)
		if at == nil || at.Status == metav1.ConditionFalse {
			continue
		}
		remedy := fmt.Sprintf("copy the data, or extend the reservation: bourse extend %s --for 24h", r.Status.Reservation)
		if r.DeletionTimestamp != nil {
			remedy = "copy the data and delete the claims, or give the data up as the message says"
		}
		found = append(found, health.VolumesAtStake.Of("request "+r.Namespace+"/"+r.Name, remedy, "%s", at.Message))
	}
	return found, nil
}
