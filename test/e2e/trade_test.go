package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// Publish on one cluster, visible on the other, buy: the same contract on both, which verifies with
// nothing but what is in it.
func TestTrade(t *testing.T) { trades(t, start(t)) }

func trades(t *testing.T, w *world) {
	t.Helper()
	seller, buyer := w.paris.People(0), w.rome.People(0)
	small := func(price string) api.OfferSpec {
		return api.OfferSpec{Type: "compute",
			Plans: []api.Plan{{Name: "small", Resources: api.Resources{"cpu": resource.MustParse("500m")}, Quantity: 2,
				Price: &api.Price{Amount: price, Currency: "EUR", Period: api.PeriodHour}}}}
	}
	for _, price := range []string{"0.10", "0.20"} {
		if _, err := seller.PutOffer(t.Context(), "web", small(price)); err != nil {
			t.Fatal(err)
		}
	}
	var offer api.Envelope[api.Listing]
	eventually(t, "rome sees what paris sells", func(ctx context.Context) (err error) {
		if offer, err = buyer.Offer(ctx, "paris", "web"); err != nil {
			return err
		}
		if p := offer.Payload.Offer.Plans[0].Price.Amount; p != "0.20" || offer.Payload.Plans["small"].Remaining != 2 {
			return fmt.Errorf("it costs %s, and %+v is left", p, offer.Payload.Plans)
		}
		return nil
	})
	r := ask(t, w.rome, "default", "bought", api.Request{Duration: &metav1.Duration{Duration: 10 * time.Hour},
		Purchase: &api.Purchase{Seller: "paris", Offer: "web", Plan: "small", Digest: offer.Payload.Digest}})
	becomes(t, w.rome, r, api.Reserved)
	of := func(m *federation.Member) (deal api.Deal, err error) {
		all, err := m.People(0).Contracts(t.Context())
		for _, d := range all {
			if d.Payload.Status.Terms.Buyer == "rome" && !d.Payload.Status.State.Over() {
				deal = d.Payload
			}
		}
		return deal, err
	}
	eventually(t, "both have the contract", func(context.Context) error {
		bought, err := of(w.rome)
		if err != nil {
			return err
		}
		sold, err := of(w.paris)
		if err == nil && (bought.Spec.Assignment == "" || bought.Spec != sold.Spec ||
			bought.Status.Cost != "2.00 EUR" || sold.Status.Cost != bought.Status.Cost) {
			err = fmt.Errorf("bought %+v, sold %+v", bought, sold)
		}
		return err
	})
	bought, err := of(w.rome)
	if err != nil {
		t.Fatal(err)
	}
	if terms, err := contract.Verify(bought.Spec); err != nil || terms.Seller != "paris" || terms.Price.Amount != "0.20" {
		t.Errorf("%+v, %v", terms, err)
	}
	if _, err := w.rome.People(0).ChangeLocally(t.Context(), bought.Spec.Reservation,
		api.ReservationChange{For: &metav1.Duration{Duration: 20 * time.Hour}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is renewed on both sides", func(context.Context) error {
		longer, err := of(w.rome)
		if err != nil {
			return err
		}
		sold, err := of(w.paris)
		if err == nil && (longer.Spec.Assignment == bought.Spec.Assignment ||
			longer.Spec != sold.Spec || sold.Status.Cost != longer.Status.Cost) {
			err = fmt.Errorf("bought %+v, sold %+v", longer.Status, sold.Status)
		}
		return err
	})
	if err := w.rome.Objects.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is over, and the record stays", func(ctx context.Context) error {
		all, err := w.paris.People(0).Contracts(ctx)
		for _, d := range all {
			if d.Payload.Spec.Reservation == bought.Spec.Reservation && d.Payload.Status.State == api.Released {
				return err
			}
		}
		return fmt.Errorf("paris has %d contracts, %v", len(all), err)
	})
	if err := seller.DeleteOffer(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is on sale", func(ctx context.Context) error {
		found, err := buyer.Catalog(ctx, api.CatalogQuery{Seller: "paris"})
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%d offers", len(found))
		}
		return err
	})
}
