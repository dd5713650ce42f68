package federation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
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
		var shown api.ProviderInstruction
		err := f.milan.Objects.Get(f.t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: s.Reservation}, &shown)
		return err == nil && shown.Status.Approval != nil
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

// A person at the provider approves what an offer says so of, at the agent; refuses; or is not asked in the end,
// because the buyer has thought better of it.
func TestApproval(t *testing.T) {
	t.Parallel()
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
	f.pending(bought.Reservation).DeepCopyInto(&shown)
	if a := shown.Status.Approval; a.Offer != "web" || a.Plan != "small" || a.Units != 2 ||
		a.Price != "0.10 EUR/hour" || !a.By.Equal(&waiting[0].Payload.By) || !a.Asked.Equal(&waiting[0].Payload.Asked) {
		t.Errorf("the object shows %+v", a)
	}
	if left := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Plans["small"].Remaining; left != 1 {
		t.Errorf("%d are left beside what waits", left)
	}
	f.answers(f.milan, bought.Reservation, api.Answer{Approve: true})
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

	unwanted := f.asks(f.rome, "unwanted", buy(1))
	f.answers(f.milan, unwanted.Reservation, api.Answer{Reason: "not on Fridays"})
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

// pending returns the instruction of a reservation at milan once it shows what to decide about.
func (f *fair) pending(id string) *api.ProviderInstruction {
	f.t.Helper()
	var i api.ProviderInstruction
	f.until("the object shows what to decide about", func() bool {
		return f.milan.Objects.Get(f.t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: id}, &i) == nil &&
			i.Status.Approval != nil
	})
	return &i
}

// annotates writes an annotation of an instruction at milan as kubectl does, and returns the answer to that value.
func (f *fair) annotates(id, name, value, noted string) (c *metav1.Condition) {
	f.t.Helper()
	i := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: id}}
	patch := must(json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{api.Group + "/" + name: value}}}))(f.t)
	if err := f.milan.Objects.Patch(f.t.Context(), i, kube.RawPatch(types.MergePatchType, patch)); err != nil {
		f.t.Fatal(err)
	}
	f.until("it is answered", func() bool {
		err := f.milan.Objects.Get(f.t.Context(), kube.ObjectKeyFromObject(i), i)
		return err == nil && i.Status.Answered[name] == noted
	})
	return meta.FindStatusCondition(i.Status.Conditions, api.ConditionAnswered)
}

// An admin approves with kubectl by the digest of what waits. A digest of something else, a word, or a value of any
// size changes nothing, and is answered where the admin looks.
func TestApprovalByAnnotation(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	f.shares(f.milan, func(s *api.Sharing) { s.ApproveWithin = &metav1.Duration{Duration: time.Hour} })
	f.until("it is known", func() bool {
		c, err := f.rome.People.Cluster(t.Context(), "milan")
		return err == nil && waits(t, c.Payload.Card)
	})
	cpu := api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}}
	first := f.asks(f.oslo, "first", cpu)
	old := f.pending(first.Reservation).Status.Approval.Digest
	if err := f.oslo.Objects.Delete(t.Context(),
		&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"}}); err != nil {
		t.Fatal(err)
	}
	id := f.asks(f.oslo, "second", cpu).Reservation
	shown := f.pending(id)
	digest, huge := shown.Status.Approval.Digest, strings.Repeat("a", 200_000)
	awaits := meta.FindStatusCondition(shown.Status.Conditions, api.ConditionAwaitsApproval)
	if command := "kubectl -n bourse annotate --overwrite providerinstruction " + id + " bourse.dev/approve=" + digest; !strings.Contains(awaits.Message, command) {
		t.Errorf("it does not say %s: %s", command, awaits.Message)
	}
	for _, c := range []struct{ name, value, noted, reason string }{
		{"approve", "true", `"true"`, "Invalid"},
		{"approve", old, old, "ChangedSince"},
		{"approve", huge, `"` + huge[:64] + `"`, "Invalid"},
		{"refuse", "not on Fridays", `"not on Fridays"`, "Invalid"},
		{"refuse", old + ".n not on Fridays", old + ".n", "ChangedSince"},
	} {
		got := f.annotates(id, c.name, c.value, c.noted)
		if got == nil || got.Status != metav1.ConditionFalse || got.Reason != c.reason ||
			!strings.Contains(got.Message, c.noted) || len(got.Message) > 1024 {
			t.Errorf("%s %.80s: the answer is %+v", c.name, c.value, got)
		}
	}
	if waiting := must(f.milan.People.Approvals(t.Context()))(t); len(waiting) != 1 || waiting[0].ID != id {
		t.Errorf("%v waits", waiting)
	}
	if c := f.annotates(id, "approve", digest, digest); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Approved" {
		t.Errorf("the answer is %+v", c)
	}
	f.becomes(f.oslo, "second", func(s api.ResourceRequestStatus) bool { return s.State == api.Reserved })
	// What was approved stays so, and its annotation with it; a refusal comes too late.
	if c := f.annotates(id, "refuse", digest+" not on Fridays", digest); c == nil || c.Reason != "ChangedSince" {
		t.Errorf("the answer is %+v", c)
	}
	var i api.ProviderInstruction
	if err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: id}, &i); err != nil ||
		i.Status.Answered["approve"] != digest || i.Status.State != api.Reserved {
		t.Errorf("%+v, %v", i.Status, err)
	}

	third := f.asks(f.oslo, "third", cpu).Reservation
	digest = f.pending(third).Status.Approval.Digest
	patch := []byte(`{"metadata":{"annotations":{"bourse.dev/refuse":"` + digest + `.1 not on Fridays\u001b[2J"}}}`)
	object := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: third}}
	if err := f.milan.Objects.Patch(t.Context(), object, kube.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	f.becomes(f.oslo, "third", func(s api.ResourceRequestStatus) bool {
		return s.State == api.Failed && strings.Contains(s.Message, "NotApproved: not on Fridays [2J")
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
