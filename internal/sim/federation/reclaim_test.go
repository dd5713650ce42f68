package federation_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// A seller takes a contract back with the notice that was agreed: both know, and it stands. One
// that has none it can only break.
func TestReclaim(t *testing.T) {
	f := newFair(t)
	offer := webOffer("0.10")
	paid := api.Purchase{Units: 1, MaxPrice: offer.Plans[0].Price}
	firm := f.buys(f.oslo, "firm", paid)
	offer.Plans[0].Notice = &metav1.Duration{Duration: time.Hour}
	if _, err := f.milan.People.PutOffer(t.Context(), "web", offer); err != nil {
		t.Fatal(err)
	}
	f.until("it is sold with a notice", func() bool {
		return must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Offer.Plans[0].Notice != nil
	})
	spot := f.buys(f.rome, "spot", paid)
	if firm.State != api.Reserved || spot.State != api.Reserved {
		t.Fatalf("%+v %+v", firm, spot)
	}
	if _, err := f.milan.People.Reclaim(t.Context(), firm.Reservation); api.CodeOf(err) != api.CodeForbidden {
		t.Errorf("what is firm is taken back: %v", err)
	}
	if _, err := f.rome.People.Reclaim(t.Context(), spot.Reservation); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the buyer takes it back: %v", err)
	}
	var at metav1.Time
	f.until("it is committed, and taken back", func() bool {
		r, err := f.milan.People.Reclaim(t.Context(), spot.Reservation)
		at = r.At
		return err == nil
	})
	if left := time.Until(at.Time); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("it ends in %s", left)
	}
	if again := must(f.milan.People.Reclaim(t.Context(), spot.Reservation))(t); !again.At.Equal(&at) {
		t.Errorf("said again, it ends at %s, not %s", again.At, at)
	}
	f.until("both know", func() bool {
		b, s := f.contractsOf(f.rome)[spot.Reservation].Status, f.contractsOf(f.milan)[spot.Reservation].Status
		return b.Reclaimed != nil && s.Reclaimed != nil && b.Reclaimed.Equal(&at) &&
			s.Reclaimed.Equal(&at) && b.Cost == s.Cost && b.State == api.Reserved
	})
	f.becomes(f.rome, "spot", func(s api.ResourceRequestStatus) bool {
		return strings.HasSuffix(s.Message, at.UTC().Format(time.RFC3339)+", when it takes the contract back") && s.Until.Equal(&at)
	})
	if _, err := f.milan.People.Evict(t.Context(), "oslo"); err != nil {
		t.Fatal(err)
	}
	f.until("that is a breach, to both", func() bool {
		b, s := f.contractsOf(f.oslo)[firm.Reservation].Status, f.contractsOf(f.milan)[firm.Reservation].Status
		return meta.IsStatusConditionTrue(b.Conditions, api.ConditionBreached) &&
			meta.IsStatusConditionTrue(s.Conditions, api.ConditionBreached)
	})
	f.until("both have the same end", func() bool {
		b, s := f.contractsOf(f.oslo)[firm.Reservation].Status, f.contractsOf(f.milan)[firm.Reservation].Status
		return b.Ended != nil && b.Ended.Equal(s.Ended) && b.Until.Equal(b.Ended) && s.Until.Equal(b.Ended)
	})
	f.becomes(f.oslo, "firm", func(s api.ResourceRequestStatus) bool {
		return strings.Contains(s.Message, "which contract "+firm.Reservation+" does not allow") &&
			strings.HasSuffix(s.Message, "make another request")
	})
}
