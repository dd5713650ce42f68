package federation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// meet makes rome and milan know each other, without a broker.
func (f *fair) meet() {
	f.t.Helper()
	ctx := f.t.Context()
	must(f.rome.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), f.milan.Address))(f.t)
	must(f.milan.People.AddPeer(ctx, "rome", f.fingerprint(f.rome), ""))(f.t)
	f.until("rome reads milan's catalog", func() bool {
		found, err := f.rome.People.Catalog(ctx, api.CatalogQuery{})
		return err == nil && len(found) == 1
	})
}

// proposed has rome propose a price, and milan answer.
func (f *fair) proposed(amount string, answer api.ProposalAnswer) string {
	f.t.Helper()
	id := must(f.rome.People.Propose(f.t.Context(), api.ProposalCreate{Seller: "milan", Offer: "web", Plan: "small",
		ProposalTerms: api.ProposalTerms{Price: &api.Price{Amount: amount, Currency: "EUR", Period: api.PeriodHour},
			Duration: &metav1.Duration{Duration: time.Hour}}}))(f.t).ID
	f.replies(id, answer)
	return id
}

// replies has milan answer a proposal once its agent shows it.
func (f *fair) replies(id string, answer api.ProposalAnswer) {
	f.t.Helper()
	f.until("milan shows proposal "+id, func() bool {
		_, err := f.milan.People.AnswerProposal(f.t.Context(), id, answer)
		if err != nil && api.CodeOf(err) != api.CodeNotFound {
			f.t.Fatal(err)
		}
		return err == nil
	})
}

// offers reports whether milan has the Offer of a name. It makes milan's agent look at it.
func (f *fair) offers(name string) bool {
	f.t.Helper()
	var object api.Offer
	if f.milan.Objects.Get(f.t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: name}, &object) != nil {
		return false
	}
	before := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, "looked", time.Now().String())
	return f.milan.Objects.Patch(f.t.Context(), &object, kube.MergeFrom(before)) == nil
}

// A seller declines a proposal, and says why. It can still accept it, and decline again.
func TestDecline(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.meet()
	id := f.proposed("0.01", api.ProposalAnswer{Decline: true, ProposalTerms: api.ProposalTerms{Message: "too low"}})
	reads := func(declined bool, reason, answer string) {
		t.Helper()
		f.until("rome reads the answer "+reason+answer, func() bool {
			p := must(f.rome.People.Proposals(t.Context()))(t)[0].Payload
			return p.Declined == declined && p.Reason == reason && p.Answer == answer
		})
	}
	reads(true, "too low", "")
	must(f.milan.People.AnswerProposal(t.Context(), id, api.ProposalAnswer{}))(t)
	reads(false, "", id)
	f.until("the answer is on sale", func() bool { _, err := f.rome.People.Offer(t.Context(), "milan", id); return err == nil })
	must(f.milan.People.AnswerProposal(t.Context(), id, api.ProposalAnswer{Decline: true}))(t)
	f.until("the answer is off sale", func() bool {
		_, err := f.rome.People.Offer(t.Context(), "milan", id)
		return api.CodeOf(err) == api.CodeNotFound && !f.offers(id)
	})
	reads(true, "", "")
}

// An Offer that answers a proposal goes after its purchase, or at the end of its time. The contract stays, and so
// does an Offer that an admin made.
func TestAnswersGo(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.meet()
	sold, unsold := f.proposed("0.09", api.ProposalAnswer{}), f.proposed("0.08", api.ProposalAnswer{})
	f.until("both are on sale", func() bool {
		for _, id := range []string{sold, unsold} {
			if _, err := f.rome.People.Offer(t.Context(), "milan", id); err != nil {
				return false
			}
		}
		return true
	})
	digest := must(f.rome.People.Offer(t.Context(), "milan", sold))(t).Payload.Digest
	request := api.Request{Duration: &metav1.Duration{Duration: time.Hour},
		Purchase: &api.Purchase{Seller: "milan", Offer: sold, Plan: "small", Digest: digest}}
	must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: "bought", Request: request}))(t)
	var bought api.ResourceRequestStatus
	f.becomes(f.rome, "bought", func(now api.ResourceRequestStatus) bool { bought = now; return now.State == api.Reserved })
	f.until("what was bought is no longer on sale", func() bool { return !f.offers(sold) })
	if !f.offers(unsold) || !f.offers("web") {
		t.Error("an offer is gone that nobody bought")
	}
	f.until("milan shows the contract", func() bool {
		return f.contractsOf(f.milan)[bought.Reservation].Status.State == api.Reserved
	})
	f.Pass(8 * 24 * time.Hour)
	f.until("the time of the other has ended", func() bool { return !f.offers(unsold) })
	if !f.offers("web") {
		t.Error("an offer is gone that an admin made")
	}
}

// A user proposes by an object, and the seller's admin answers by another one. The command line shows both.
func TestProposalsAsObjects(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.meet()
	ctx := t.Context()
	asked := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cheaper"},
		Spec: api.ProposalSpec{Seller: "milan", Offer: "web", Plan: "small", ProposalTerms: api.ProposalTerms{
			Price: &api.Price{Amount: "0.05", Currency: "EUR", Period: api.PeriodHour}, Message: "for a school"}}}
	if err := f.rome.Objects.Create(ctx, asked); err != nil {
		t.Fatal(err)
	}
	received := &api.Proposal{}
	f.until("milan has it", func() bool {
		var all api.ProposalList
		if f.milan.Objects.List(ctx, &all, kube.InNamespace(api.Namespace)) == nil && len(all.Items) == 1 {
			received = &all.Items[0]
		}
		return received.Status.Digest != ""
	})
	if received.Spec.Buyer != "rome" || received.Spec.Message != "for a school" {
		t.Errorf("milan has %+v", received.Spec)
	}
	answer := []byte(`[{"op":"test","path":"/metadata/uid","value":"` + string(received.UID) + `"},{"op":"add",` +
		`"path":"/spec/answer","value":{"decision":"Counter","price":{"amount":"0.09","currency":"EUR","period":"hour"}}}]`)
	if err := f.milan.Objects.Patch(ctx, received, kube.RawPatch(types.JSONPatchType, answer)); err != nil {
		t.Fatal(err)
	}
	f.until("rome reads the answer", func() bool {
		err := f.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(asked), asked)
		return err == nil && asked.Status.Offer == received.Name
	})
	f.until("rome sees the answer on sale", func() bool {
		listed, err := f.rome.People.Offer(ctx, "milan", asked.Status.Offer)
		return err == nil && listed.Payload.Offer.Plans[0].Price.Amount == "0.09"
	})
	for _, m := range f.Members {
		if all := must(m.People.Proposals(ctx))(t); len(all) != 1 || all[0].ID != received.Name || !all[0].Payload.Countered {
			t.Errorf("%s shows %+v", m.Name, all)
		}
	}
}
