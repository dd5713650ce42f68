package gate

import (
	"context"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// An offer that was taken off sale at the broker is not put on sale there again because the broker answers late.
func TestOffSaleWhileTheBrokerIsSlow(t *testing.T) {
	slow := true
	o := NewOffers(OffersOptions{Cluster: "milan", Namespace: "bourse", Changed: &kubeobject.Trigger{},
		Shown: func(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
			if slow {
				return nil, api.Errorf(api.CodeUnavailable, "no answer in time")
			}
			return nil, nil
		}})
	offer := &market.Offer{Digest: "d", Signed: &api.SignedOffer{}}
	offer.Signed.Name = "small"
	o.offSale.recordPublished("small")
	o.Compare(api.SellerOffers{Cluster: "milan"}) // a program took it off sale
	first, _ := o.isOffSale(t.Context(), offer)
	slow = false
	if is, _ := o.isOffSale(t.Context(), offer); !is {
		t.Errorf("it is published again; at first %t", first)
	}
}
