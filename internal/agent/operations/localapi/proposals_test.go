package localapi

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// An answer that names the digest of a proposal is no answer to another proposal that stands under its ID.
func TestAnAnswerIsToTheProposalThatWasRead(t *testing.T) {
	c, _ := newCluster(t)
	milan := transporttest.NewParty(t, "milan")
	if _, _, err := (trust.Demand{}).Meet(t.Context(), c.o.Ledger, milan.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	signs := func(amount string) string {
		document, err := milan.Key.Sign(api.DocumentProposal, api.Proposal{Protocol: api.Protocol, Buyer: "milan",
			Seller: "rome", Offer: "web", Plan: "small", Expires: metav1.NewTime(time.Now().Add(time.Hour)),
			ProposalTerms: api.ProposalTerms{Price: &api.Price{Amount: amount, Currency: "EUR", Period: api.PeriodHour}}})
		if err != nil {
			t.Fatal(err)
		}
		return document
	}
	read, sent := signs("9.00"), signs("0.01")
	id := "p-0123456789abcdef" // as an earlier version made it
	if _, err := c.o.Ledger.Do(t.Context(), market.Propose{Buyer: "milan", Proposal: market.Proposal{
		ID: id, Document: sent, Expires: market.At(time.Now().Add(time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	answer := func(document string) error {
		_, err := c.AnswerProposal(t.Context(), id, api.ProposalAnswer{Decline: true,
			Digest: clusterkey.Digest(document).String()})
		return err
	}
	declined := func() bool {
		all, err := c.Proposals(t.Context())
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
