package gate

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// lookForSale is how often the controller looks whether an offer that answers a proposal was bought.
const lookForSale = time.Minute

// expire deletes an Offer that answers a proposal, after it was bought or its time has ended. Else it returns when
// to look again, 0 for an Offer that answers none.
func (o *Offers) expire(ctx context.Context, object *api.Offer) (again time.Duration, expired bool, err error) {
	if object.Labels[api.AnswersLabel] == "" || object.DeletionTimestamp != nil {
		return 0, false, nil
	}
	again = lookForSale
	if until := object.Spec.ValidUntil; until != nil {
		left := until.Sub(o.Market.Now().Go())
		again, expired = min(again, max(left, time.Second)), left <= 0
	}
	if expired = expired || o.isBought(ctx, object.Name); !expired {
		return again, false, nil
	}
	seen := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	return 0, true, kubeobject.Error(client.IgnoreNotFound(o.Delete(ctx, object, seen)))
}

// isBought reports whether this cluster accepted a purchase of an offer as it is on sale now.
func (o *Offers) isBought(ctx context.Context, name string) (bought bool) {
	_ = o.Market.Read(ctx, func(s *market.State) {
		offer := s.OnSale(o.Cluster, name)
		bought = offer != nil && slices.ContainsFunc(s.Of(o.Cluster, 0), func(r *market.Reservation) bool {
			return r.Provider == o.Cluster && r.Acceptance != "" && r.Sale != nil && r.Sale.Offer == offer.Digest
		})
	})
	return bought
}
