package federation_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Who buys a pool for itself alone has it alone, for as long as the contract counts; to the others
// it is explained.
func TestDedicated(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	offer := webOffer("0.10")
	offer.Plans[0].Dedicated = true
	if _, err := f.milan.People.PutOffer(t.Context(), "web", offer); err != nil {
		t.Fatal(err)
	}
	f.until("it is sold so", func() bool {
		return must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Offer.Plans[0].Dedicated
	})
	paid := api.Purchase{Units: 1, MaxPrice: offer.Plans[0].Price}
	got := f.buys(f.rome, "alone", paid)
	if got.State != api.Reserved {
		t.Fatalf("%+v", got)
	}
	asks := func(name string) (s api.ResourceRequestStatus) {
		r := api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")},
			Duration: &metav1.Duration{Duration: time.Hour}}
		if _, err := f.oslo.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: r}); err != nil {
			t.Fatal(err)
		}
		f.becomes(f.oslo, name, func(now api.ResourceRequestStatus) bool {
			s = now
			return s.State == api.Reserved || s.State == api.Rejected
		})
		return s
	}
	if s := asks("beside"); s.State != api.Rejected ||
		!strings.Contains(s.Message, "by dedicated: has dedicated pool \"general\" to another consumer") {
		t.Errorf("%+v", s)
	}
	if err := f.rome.People.ReleaseLocally(t.Context(), got.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("it is over", func() bool { return f.contractsOf(f.milan)[got.Reservation].Status.State == api.Released })
	f.until("oslo gets some", func() bool {
		e, err := f.oslo.People.Evaluate(t.Context(), api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}})
		return err == nil && e.Decision.Candidates == 1
	})
	if s := asks("after"); s.State != api.Reserved {
		t.Fatalf("%+v", s)
	}
	late := f.buys(f.rome, "late", paid)
	why := must(f.rome.People.Reservation(t.Context(), late.Reservation))(t).Payload.Decision
	if late.State != api.Rejected || why == nil || why.NearestMiss == nil || why.NearestMiss.Filter != "dedicated" {
		t.Errorf("%+v, because %+v", late, why)
	}
}
