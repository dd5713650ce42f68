package market_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A Ledger keeps few proposals of each buyer, until they expire. To repeat one changes nothing.
func TestProposals(t *testing.T) {
	n := newNode(t, "milan")
	n.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "rome", State: api.MemberActive, Key: "k"}})
	propose := func(buyer, id, document string, at, expires market.Time) (market.Outcome, error) {
		return n.do(market.Propose{Buyer: buyer,
			Proposal: market.Proposal{ID: id, Document: document, Expires: expires}}, at)
	}
	const hour = market.Time(60 * 60 * 1000)
	for i := range 8 {
		for try := range 2 {
			out, err := propose("rome", fmt.Sprint("p-", i), "signed", noon, noon+hour)
			if err != nil || len(out.Events) != 1-try {
				t.Fatalf("proposal %d, try %d: %v, %v", i, try, out.Events, err)
			}
		}
	}
	for name, c := range map[string]struct {
		buyer, id, document string
		expires             market.Time
		code                api.Code
	}{
		"one more":             {"rome", "p-9", "signed", noon + hour, api.CodeTooManyRequests},
		"of an unknown buyer":  {"oslo", "p-9", "signed", noon + hour, api.CodeNotFound},
		"too long":             {"rome", "p-9", strings.Repeat("x", 4097), noon + hour, api.CodeTooLarge},
		"expired":              {"rome", "p-0", "signed", noon, api.CodeInvalid},
		"for more than a week": {"rome", "p-9", "signed", noon + market.ProposalLasts + hour, api.CodeInvalid},
	} {
		if _, err := propose(c.buyer, c.id, c.document, noon, c.expires); api.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := n.do(market.AnswerProposal{Buyer: "rome", ID: "p-0", Answer: "p-0", Countered: true}, noon); err != nil {
		t.Fatal(err)
	}
	if _, err := n.do(market.AnswerProposal{Buyer: "rome", ID: "p-9", Answer: "p-9"}, noon); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("no proposal is answered: %v", err)
	}
	if p := n.state.Member("rome").Proposal("p-0"); p.Answer != "p-0" || !p.Countered {
		t.Errorf("%+v", p)
	}
	if _, err := propose("rome", "p-0", "signed", noon, noon+hour); err != nil ||
		n.state.Member("rome").Proposal("p-0").Answer != "p-0" {
		t.Errorf("a repetition undoes the answer: %v", err)
	}
	decline := market.AnswerProposal{Buyer: "rome", ID: "p-1", Declined: true, Reason: "no"}
	if out, err := n.do(decline, noon); err != nil || out.Member.Proposal("p-1").Reason != "no" {
		t.Fatal(err)
	}
	if _, err := propose("rome", "p-8", "signed", noon, noon+hour); err != nil ||
		n.state.Member("rome").Proposal("p-1") != nil || n.state.Member("rome").Proposal("p-0") == nil {
		t.Errorf("it does not take the place of a declined one: %v", err)
	}
	if _, err := propose("rome", "p-9", "signed", noon+hour, noon+2*hour); err != nil ||
		len(n.state.Member("rome").Proposals) != 1 {
		t.Errorf("after the others expired: %v, %+v", err, n.state.Member("rome").Proposals)
	}
	for i := range 64 {
		buyer := fmt.Sprint("buyer-", i)
		n.apply(market.Event{Time: noon, Member: &market.Member{Cluster: buyer, State: api.MemberActive, Key: buyer}})
		for k := range 8 {
			_, err := propose(buyer, fmt.Sprint("p-", i, "-", k), "signed", noon+hour, noon+2*hour)
			if last := i == 63 && k == 7; (err != nil) != last || last && api.CodeOf(err) != api.CodeTooManyRequests {
				t.Fatalf("proposal %d of buyer %d: %v", k, i, err)
			}
		}
	}
	n.check()
}
