package federation_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/trust"
)

// asks makes a request of a member's people, and returns it once it waits for milan's.
func (f *fair) asks(m *federation.Member, name string, r api.Request) (s api.ResourceRequestStatus) {
	f.t.Helper()
	r.Duration = &metav1.Duration{Duration: 10 * time.Hour}
	if _, err := m.People.MakeRequest(f.t.Context(), api.RequestCreate{Name: name, Request: r}); err != nil {
		f.t.Fatal(err)
	}
	f.becomes(m, name, func(now api.ResourceRequestStatus) bool {
		s = now
		return meta.IsStatusConditionTrue(s.Conditions, api.ConditionAwaitsApproval)
	})
	f.until(name+" is shown to milan", func() bool {
		return f.milan.Objects.Get(f.t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: s.Reservation},
			&api.ProviderInstruction{}) == nil
	})
	return s
}

func (f *fair) becomes(m *federation.Member, name string, holds func(api.ResourceRequestStatus) bool) {
	f.t.Helper()
	var now client.RequestStatus
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now = must(m.People.Request(f.t.Context(), "default", name))(f.t); holds(now.Payload.Status) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("request %s stays %+v", name, now.Payload.Status)
		}
	}
}

// A person at the provider approves what an offer, or the policy, says so of: at the agent, or by
// an annotation; refuses; or is not asked in the end, because the buyer has thought better of it.
func TestApproval(t *testing.T) {
	f := newFair(t)
	manual := webOffer("0.10")
	manual.ApproveWithin = &metav1.Duration{Duration: 8 * time.Hour}
	if _, err := f.milan.People.PutOffer(t.Context(), "web", manual); err != nil {
		t.Fatal(err)
	}
	f.shares(f.milan, func(s *api.Sharing) { s.ApproveWithin = &metav1.Duration{Duration: time.Hour} })
	f.until("both are known", func() bool {
		offer, err := f.rome.People.Offer(t.Context(), "milan", "web")
		c, err2 := f.rome.People.Cluster(t.Context(), "milan")
		return err == nil && err2 == nil && offer.Payload.Offer.ApproveWithin != nil && waits(t, c.Payload.Card)
	})
	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	buy := func(units int64) api.Request {
		return api.Request{Purchase: &api.Purchase{Seller: "milan",
			Offer: "web", Plan: "small", Units: units, Digest: digest}}
	}

	bought := f.asks(f.rome, "bought", buy(2))
	if left := time.Until(waitsUntil(t, bought.Message)); bought.State != api.Held ||
		left < 7*time.Hour || left > 8*time.Hour {
		t.Errorf("%+v", bought)
	}
	waiting := must(f.milan.People.Approvals(t.Context()))(t)
	if len(waiting) != 1 || waiting[0].ID != bought.Reservation ||
		waiting[0].Payload.Plan != "small" || waiting[0].Payload.Units != 2 || waiting[0].Payload.Consumer != "rome" {
		t.Errorf("%+v", waiting)
	}
	var shown api.ProviderInstruction
	key := kube.ObjectKey{Namespace: api.Namespace, Name: bought.Reservation}
	f.until("the object shows what to decide about", func() bool {
		return f.milan.Objects.Get(t.Context(), key, &shown) == nil && shown.Status.Approval != nil
	})
	if a := shown.Status.Approval; a.Offer != "web" || a.Plan != "small" || a.Units != 2 ||
		a.Price != "0.10 EUR/hour" || !a.By.Equal(&waiting[0].Payload.By) || !a.Asked.Equal(&waiting[0].Payload.Asked) {
		t.Errorf("the object shows %+v", a)
	}
	if left := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Plans["small"].Remaining; left != 1 {
		t.Errorf("%d are left beside what waits", left)
	}
	for range 2 {
		if err := f.milan.People.Answer(t.Context(), bought.Reservation, api.Answer{Approve: true}); err != nil {
			t.Fatal(err)
		}
	}
	f.becomes(f.rome, "bought", func(s api.ResourceRequestStatus) bool {
		bought = s
		return s.State == api.Reserved && meta.IsStatusConditionFalse(s.Conditions, api.ConditionAwaitsApproval)
	})
	if bought.Units != 2 || bought.Generation == 0 || bought.Began == nil {
		t.Errorf("the request shows %+v", bought)
	}
	f.until("once approved, the object shows no decision", func() bool {
		return f.milan.Objects.Get(t.Context(), key, &shown) == nil && shown.Status.Approval == nil
	})
	f.until("both have the contract", func() bool {
		return f.contractsOf(f.rome)[bought.Reservation].Spec.Acceptance != "" &&
			f.contractsOf(f.milan)[bought.Reservation].Spec.Acceptance != ""
	})

	plain := f.asks(f.oslo, "plain", api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}})
	object := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: plain.Reservation}}
	yes := []byte(`{"metadata":{"annotations":{"` + gate.ApproveAnnotation + `":"true"}}}`)
	if err := f.milan.Objects.Patch(t.Context(), object, kube.RawPatch("application/merge-patch+json", yes)); err != nil {
		t.Fatal(err)
	}
	f.becomes(f.oslo, "plain", func(s api.ResourceRequestStatus) bool { return s.State == api.Reserved })

	unwanted := f.asks(f.rome, "unwanted", buy(1))
	if err := f.milan.People.Answer(t.Context(), unwanted.Reservation, api.Answer{Reason: "not on Fridays"}); err != nil {
		t.Fatal(err)
	}
	f.becomes(f.rome, "unwanted", func(s api.ResourceRequestStatus) bool {
		return s.State == api.Failed && strings.Contains(s.Message, "NotApproved: not on Fridays")
	})

	f.asks(f.rome, "cancelled", buy(1))
	if err := f.rome.Objects.Delete(t.Context(),
		&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cancelled"}}); err != nil {
		t.Fatal(err)
	}
	f.until("nothing waits any more, and its unit is free", func() bool {
		offer := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t)
		return len(must(f.milan.People.Approvals(t.Context()))(t)) == 0 && offer.Payload.Plans["small"].Remaining == 1
	})
}

// waits says whether a card says that a person approves.
func waits(t *testing.T, signed string) bool {
	t.Helper()
	card, _, err := trust.Open(signed)
	if err != nil {
		t.Fatal(err)
	}
	return card.ApproveWithin != nil
}

// waitsUntil is the time at the end of a message.
func waitsUntil(t *testing.T, message string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, message[strings.LastIndex(message, " ")+1:])
	if err != nil {
		t.Fatalf("%q: %v", message, err)
	}
	return at
}
