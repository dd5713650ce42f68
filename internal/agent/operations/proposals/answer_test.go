package proposals

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// An answer that names the digest of a proposal is no answer to another proposal that stands under its ID.
func TestAnAnswerIsToTheProposalThatWasRead(t *testing.T) {
	d := newDesk(t)
	read, sent := d.signed("9.00"), d.signed("0.01")
	id := "p-0123456789abcdef" // as an earlier version made it
	d.receives(id, sent)
	answer := func(document string) error {
		_, err := d.answer(t.Context(), id, "", api.ProposalAnswer{Decline: true,
			Digest: clusterkey.Digest(document).String()})
		return err
	}
	declined := func() bool {
		all, err := d.Received(t.Context())
		if err != nil || len(all) != 1 || all[0].Payload.Digest != clusterkey.Digest(sent).String() {
			t.Fatalf("it shows %+v, %v", all, err)
		}
		return all[0].Payload.Declined
	}
	if err := answer(read); api.CodeOf(err) != api.CodeConflict || declined() {
		t.Errorf("an answer to another proposal: %v", err)
	}
	if err := answer(sent); err != nil || !declined() {
		t.Errorf("an answer to the proposal: %v", err)
	}
}

// A seller that lies about proposals shows nothing that this cluster did not sign for it.
func TestProposalsOfALyingSeller(t *testing.T) {
	d := newDesk(t)
	says := func(key *clusterkey.Key, buyer, seller, by, answer string) {
		document, err := key.Sign(api.DocumentProposal, api.SignedProposal{
			Protocol: api.Protocol, Buyer: buyer, Seller: seller, Offer: "web", Plan: "small",
		})
		if err != nil {
			t.Fatal(err)
		}
		said := api.KnownProposal{Document: document, Answer: answer, Proposal: api.SignedProposal{Seller: by, Offer: "other"}}
		d.said = append(d.said, proposal{ID: "p-1", Payload: said})
	}
	says(d.Key, "rome", "milan", "milan", "p-2")
	says(transporttest.NewParty(t, "milan").Key, "rome", "milan", "milan", "")
	says(d.Key, "oslo", "milan", "milan", "")
	says(d.Key, "rome", "oslo", "milan", "")
	says(d.Key, "rome", "milan", "milan", "web/../\x1b[2J")
	d.said = append(d.said, proposal{ID: "p-3"})
	all := d.Sent(t.Context(), func(string) bool { return true })
	if len(all) != 1 || all[0].ID == "p-1" || all[0].Payload.Proposal.Offer != "web" || all[0].Payload.Answer != "p-2" {
		t.Errorf("it shows %+v", all)
	}
}

// An Offer that answers a proposal, without an end of its time, is replaced.
func TestAnAnswerWithoutAnEnd(t *testing.T) {
	d := newDesk(t)
	id := d.receives("", d.signed("0.08"))
	var offer api.Offer
	for range 2 {
		if _, err := d.answer(t.Context(), id, "", api.ProposalAnswer{}); err != nil {
			t.Fatal(err)
		}
		d.get(d.Namespace, id, &offer)
		if offer.Spec.ValidUntil == nil || offer.Labels[api.AnswersLabel] != id {
			t.Fatalf("it is %+v", offer)
		}
		offer.Spec.ValidUntil = nil
		if err := d.Client.Update(t.Context(), &offer); err != nil {
			t.Fatal(err)
		}
	}
	if p := d.kept(id); p.Answer != id || len(d.published) != 2 {
		t.Errorf("the Ledger has %+v, published %q", p, d.published)
	}
}

// kept returns a proposal that the Ledger has of milan.
func (d *desk) kept(id string) market.Proposal {
	d.t.Helper()
	m, err := d.Ledger.Member(d.t.Context(), "milan")
	if err != nil || m.Proposal(id) == nil {
		d.t.Fatalf("the Ledger lacks %s: %v", id, err)
	}
	return *m.Proposal(id)
}

// An answer that the Ledger has is not carried out again by an agent that ended before the object said so: its offer may
// have been bought since then.
func TestAnAnswerIsCarriedOutOnce(t *testing.T) {
	d := newDesk(t)
	id := d.receives("", d.signed("0.08"))
	o := d.looks("bourse", id, 2)
	waits := o.Status
	o.Spec.Answer = &api.ProposalReply{Decision: api.ProposalAccept}
	if err := d.Client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o = d.looks("bourse", id, 1)
	d.is(o, api.ConditionAnswered, metav1.ConditionTrue, "Accepted", id)
	var offer api.Offer
	d.get("bourse", id, &offer)
	if err := d.Client.Delete(t.Context(), &offer); err != nil { // it was bought
		t.Fatal(err)
	}
	o.Status = waits
	if err := d.Client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.is(d.looks("bourse", id, 1), api.ConditionAnswered, metav1.ConditionTrue, "Accepted", id)
	if err := d.Client.Get(t.Context(), client.ObjectKeyFromObject(&offer), &offer); err == nil {
		t.Error("it is on sale again")
	}
	o = d.looks("bourse", id, 1)
	o.Spec.Answer = &api.ProposalReply{Decision: api.ProposalCounter, ProposalTerms: price("0.09")}
	if err := d.Client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.is(d.looks("bourse", id, 1), api.ConditionAnswered, metav1.ConditionTrue, "Countered", id)
	d.get("bourse", id, &offer)
}
