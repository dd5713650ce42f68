package federation_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Who says what it pays gets of a cluster that lends by offers only a contract; who does not, or
// says less, is told why not.
func TestACeilingMakesAContract(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	f.lendsByOffersOnly()
	ask := func(name, most string) (s api.ResourceRequestStatus) {
		r := api.Request{Resources: api.Resources{"cpu": resource.MustParse("3")},
			Duration: &metav1.Duration{Duration: 10 * time.Hour}}
		if most != "" {
			r.MaxPrice = &api.Price{Amount: most, Currency: "EUR", Period: api.PeriodDay}
		}
		if _, err := f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: r}); err != nil {
			t.Fatal(err)
		}
		f.becomes(f.rome, name, func(now api.ResourceRequestStatus) bool {
			s = now
			return s.State == api.Reserved || s.State == api.Rejected
		})
		return s
	}
	why := func(s api.ResourceRequestStatus) string {
		d := must(f.rome.People.Reservation(t.Context(), s.Reservation))(t).Payload.Decision
		if d == nil || len(d.Eliminated) == 0 {
			t.Fatalf("%+v is not explained", s)
		}
		return d.Eliminated[len(d.Eliminated)-1].Reason
	}
	if s := ask("for-nothing", ""); s.State != api.Rejected || why(s) != "OnlyOffers" {
		t.Errorf("%+v, because %s", s, why(s))
	}
	if s := ask("for-too-little", "4.79"); s.State != api.Rejected || why(s) != "TooDear" {
		t.Errorf("%+v, because %s", s, why(s))
	}
	got := ask("for-as-much", "4.80") // two units at 0.10 an hour
	if got.State != api.Reserved || got.Provider != "milan" {
		t.Fatalf("%+v", got)
	}
	f.until("both have the contract", func() bool {
		bought, sold := f.contractsOf(f.rome)[got.Reservation], f.contractsOf(f.milan)[got.Reservation]
		return bought.Spec.Assignment != "" && bought.Spec == sold.Spec &&
			bought.Status.Terms.Units == 2 && bought.Status.Cost == "2.00 EUR"
	})
	if why := must(f.rome.People.Reservation(t.Context(),
		got.Reservation))(t).Payload.Decision; why.Top[0].Bought == nil ||
		*why.Top[0].Bought != (api.Bought{Plan: "milan/web/small", Units: 2, Cost: "2.00 EUR"}) {
		t.Errorf("explained by %+v", why.Top)
	}
}

// lendsByOffersOnly has milan lend nothing but what its offers sell.
func (f *fair) lendsByOffersOnly() {
	f.t.Helper()
	f.shares(f.milan, func(s *api.Sharing) { s.OnlyOffers = true })
	f.until("milan lends by its offers only", func() bool {
		e, err := f.rome.People.Evaluate(f.t.Context(), api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}})
		return err == nil && e.Decision.Candidates == 0
	})
}

// Who says what it pays, and that it waits, waits while everything is dearer, and buys the first that is not.
func TestACeilingWaits(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	f.lendsByOffersOnly()
	r := cores("3", 0) // two units
	r.Duration, r.MaxPrice = &metav1.Duration{Duration: 10 * time.Hour}, &api.Price{Amount: "0.15",
		Currency: "EUR", Period: api.PeriodHour}
	waits := f.makes(f.rome, "waits", r, api.Pending)
	if d := waits.Payload.Decision; d == nil || d.NearestMiss == nil ||
		d.NearestMiss.Filter != "price" || waits.Payload.Sale != nil {
		t.Errorf("%+v, because %+v", waits.Payload, waits.Payload.Decision)
	}
	put := func(name, price string) {
		t.Helper()
		if _, err := f.milan.People.PutOffer(t.Context(), name, webOffer(price)); err != nil {
			t.Fatal(err)
		}
		f.until("rome is shown "+name+" at "+price, func() bool {
			l, err := f.rome.People.Offer(t.Context(), "milan", name)
			return err == nil && l.Payload.Offer.Plans[0].Price.Amount == price
		})
	}
	put("web", "0.08")
	for range 50 {
		if s := must(f.rome.People.Reservation(t.Context(), waits.ID))(t).Payload; s.State != api.Pending {
			t.Fatalf("at 0.16 an hour, of 0.15, it is %s", s.State)
		}
		time.Sleep(20 * time.Millisecond)
	}
	put("sale", "0.075")
	if got := f.is(f.rome, "waits", api.Reserved); got.ID != waits.ID ||
		got.Payload.Provider != "milan" || got.Payload.Sale == nil {
		t.Fatalf("%+v", got)
	}
	f.until("both have the contract", func() bool {
		bought, sold := f.contractsOf(f.rome)[waits.ID], f.contractsOf(f.milan)[waits.ID]
		return bought.Spec.Assignment != "" && bought.Spec == sold.Spec &&
			bought.Status.Terms.Units == 2 && bought.Status.Cost == "1.50 EUR"
	})
}
