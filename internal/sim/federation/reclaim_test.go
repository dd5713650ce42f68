package federation_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A seller takes a contract back with the notice that was agreed: both know, and it stands. One
// that has none it can only break.
func TestReclaim(t *testing.T) {
	t.Parallel()
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
	if _, err := reclaim(t.Context(), f.milan, firm.Reservation); api.CodeOf(err) != api.CodeForbidden {
		t.Errorf("what is firm is taken back: %v", err)
	}
	if _, err := reclaim(t.Context(), f.rome, spot.Reservation); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the buyer takes it back: %v", err)
	}
	var at metav1.Time
	f.until("it is committed, and taken back", func() bool {
		r, err := reclaim(t.Context(), f.milan, spot.Reservation)
		at = r.At
		return err == nil
	})
	if left := time.Until(at.Time); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("it ends in %s", left)
	}
	if again := must(reclaim(t.Context(), f.milan, spot.Reservation))(t); !again.At.Equal(&at) {
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
	f.evicts(f.milan, "oslo")
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

// An admin takes a contract back with kubectl by the digest that it shows. One of another contract changes nothing,
// and is answered.
func TestReclaimByAnnotation(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	offer := webOffer("0.10")
	paid := api.Purchase{Units: 1, MaxPrice: offer.Plans[0].Price}
	offer.Plans[0].Notice = &metav1.Duration{Duration: time.Hour}
	if _, err := f.milan.People.PutOffer(t.Context(), "web", offer); err != nil {
		t.Fatal(err)
	}
	f.until("it is sold with a notice", func() bool {
		return must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Offer.Plans[0].Notice != nil
	})
	digestOf := func(id string) (digest string) {
		f.until("the contract shows a digest", func() bool {
			var o api.Contract
			err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: id}, &o)
			digest = o.Status.Digest
			return err == nil && digest != ""
		})
		return digest
	}
	id, other := f.buys(f.rome, "spot", paid).Reservation, f.buys(f.oslo, "other", paid).Reservation
	digest, foreign := digestOf(id), digestOf(other)
	for _, c := range []struct{ value, noted, reason string }{
		{"true", `"true"`, "Invalid"}, {foreign, foreign, "ChangedSince"}, {digest + ".n", digest + ".n", "Reclaimed"},
	} {
		o := &api.Contract{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: id}}
		patch := []byte(`{"metadata":{"annotations":{"bourse.dev/reclaim":"` + c.value + `"}}}`)
		if err := f.milan.Objects.Patch(t.Context(), o, kube.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
		f.until("it is answered", func() bool {
			err := f.milan.Objects.Get(t.Context(), kube.ObjectKeyFromObject(o), o)
			return err == nil && o.Status.Answered["reclaim"] == c.noted
		})
		got := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReclaimed)
		if got == nil || got.Reason != c.reason || c.reason != "Reclaimed" && o.Status.Digest != digest {
			t.Errorf("%s: %+v of %+v", c.value, got, o.Status)
		}
	}
	f.until("both know", func() bool {
		b, s := f.contractsOf(f.rome)[id].Status, f.contractsOf(f.milan)[id].Status
		return b.Reclaimed != nil && s.Reclaimed != nil && b.Reclaimed.Equal(s.Reclaimed) && s.Digest == "" &&
			meta.IsStatusConditionTrue(s.Conditions, api.ConditionReclaimed)
	})
	if s := f.contractsOf(f.milan)[other].Status; s.Reclaimed != nil || s.Digest != foreign {
		t.Errorf("the other one is %+v", s)
	}
}
