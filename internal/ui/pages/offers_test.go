package pages_test

import (
	"errors"
	"maps"
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

func anyOffer(name, reason string, status metav1.ConditionStatus, draft bool) api.Envelope[api.OwnOffer] {
	return api.Envelope[api.OwnOffer]{ID: name, Payload: api.OwnOffer{Spec: api.OfferSpec{Draft: draft, Plans: []api.Plan{{
		Name: "small", Resources: amounts("cpu", "2"), Quantity: 8, Price: &api.Price{Amount: "0.08", Currency: "EUR", Period: "hour"},
		Units: &api.Units{Min: 1, Max: 4}, Notice: &metav1.Duration{Duration: 10 * time.Minute}}}},
		Status: api.OfferStatus{Conditions: condition(api.ConditionReady, status, reason, "nothing is shared"),
			Sold: map[string]int64{"small": 2}}}}
}

func anyProposal(id, buyer, seller, message string) api.Envelope[api.KnownProposal] {
	return api.Envelope[api.KnownProposal]{ID: id, Payload: api.KnownProposal{Digest: "d-" + id, Proposal: api.SignedProposal{
		Buyer: buyer, Seller: seller, Offer: "web", Plan: "small", Expires: metav1.NewTime(now.Add(48 * time.Hour)),
		ProposalTerms: api.ProposalTerms{Price: &api.Price{Amount: "0.06", Currency: "EUR", Period: "hour"}, Units: 2,
			Message: message}}}}
}

func TestOffersAreShownAsBuyersSeeThem(t *testing.T) {
	s := pages.Sales{Offers: []api.Envelope[api.OwnOffer]{anyOffer("web", "OnSale", "True", false),
		anyOffer("old", "NotShared", "False", false), anyOffer("next", "Draft", "False", true)},
		Listed: map[string]api.Listing{"web": {Plans: map[string]api.PlanListing{"small": {Remaining: 6}}}},
		Proposals: []api.Envelope[api.KnownProposal]{anyProposal("p-1", "rome", "milan", "for a year"),
			anyProposal("p-2", "milan", "paris", "")}}
	s.Proposals[1].Payload.Answer = "p-2"
	hasNot(t, render(t, pages.Offers(view("/offers", ""), s)), "Buy it") // no broker shows what would be bought
	day := &metav1.Duration{Duration: 24 * time.Hour}
	s.Answers = map[string]api.Listing{"p-2": {Seller: "paris", Name: "p-2", Digest: "d-offer", Offer: api.OfferSpec{Plans: []api.Plan{{
		Name: "small", Price: &api.Price{Amount: "0.07", Currency: "EUR", Period: "hour"}, Units: &api.Units{Min: 2, Max: 2},
		MinDuration: day, MaxDuration: day}}}}}
	has(t, render(t, pages.Offers(view("/offers", ""), s)),
		"On sale to this cluster alone: 0.07 EUR/hour a unit, 2 units a contract, for 24h",
		"buy=paris%2Fp-2%2Fsmall&amp;digest=d-offer&amp;for=24h&amp;panel=review&amp;units=2")
	html := render(t, pages.Offers(view("/offers", ""), s))
	has(t, html, "On sale", "NotShared", "nothing is shared", "Draft", "2 of 8", `data-label="Left to buyers">6</td>`,
		"1 to 4 units a contract, you can take it back with 10m notice", "2 units, 0.06 EUR/hour each", "for a year",
		"bourse accept p-1 --digest d-p-1", "Buy it", "Put on sale", "Take off sale")
	has(t, render(t, pages.Offers(view("/offers", "panel=edit&id=web"), s)), "quantity: 8", pages.Seen(s.Offers[0].Payload.Spec))
	has(t, render(t, pages.Offers(view("/offers", "panel=accept&id=p-1"), s)), `name="digest" value="d-p-1"`, "which only it sees")
	has(t, render(t, pages.Offers(view("/offers", "panel=sale&id=next"), s)), "Put on sale: next", `name="draft" value="false"`)
	has(t, render(t, pages.Offers(view("/offers", "panel=edit&id=gone"), s)), "does not exist any more")
	has(t, render(t, pages.Offers(view("/offers", "panel=new"), s)), "draft: true")
	has(t, render(t, pages.Offers(view("/offers", "panel=counter&id=p-1"), s)), "Counter the proposal of rome", "0.06EUR/hour")
	has(t, render(t, pages.Offers(view("/offers", "panel=decline&id=p-1"), s)), "Reason, which it reads")
	has(t, render(t, pages.Offers(view("/offers", ""), pages.Sales{})), "This cluster sells nothing")
	has(t, render(t, pages.Offers(view("/offers", ""), pages.Sales{Failed: map[string]*api.Error{"Offers": forbidden}})),
		"may not read Offers here")
	checkHostile(t, render(t, pages.Offers(view("/offers", "panel=counter&id=p-3"), pages.Sales{
		Proposals: []api.Envelope[api.KnownProposal]{anyProposal("p-3", hostile, "milan", hostile)}})))
}

// The form of a new offer makes a draft with one plan. Each field that is wrong is named, and what was typed stays.
func TestANewOfferIsAForm(t *testing.T) {
	form := url.Values{"offer": {"web"}, "plan": {"small"}, "cpu": {"2"}, "memory": {"4Gi"}, "price": {"0.10EUR/hour"}, "quantity": {"5"},
		"most": {"4"}, "for": {"30d"}, "type": {"compute"}}
	spec, err := pages.ReadOffer(form)
	if err != nil {
		t.Fatal(err)
	}
	has(t, pages.YAML(spec), "draft: true", "type: compute", "cpu: \"2\"", "memory: 4Gi", "amount: \"0.10\"",
		"quantity: 5", "min: 1", "max: 4",
		"maxDuration: 720h0m0s")
	for field, value := range map[string]string{"cpu": "two", "price": "cheap", "quantity": "-1", "most": "x", "for": "soon"} {
		wrong := maps.Clone(form)
		wrong.Set(field, value)
		_, err := pages.ReadOffer(wrong)
		e, is := errors.AsType[*api.Error](err)
		if !is || e.Field != field {
			t.Errorf("%s %q is answered %v", field, value, err)
			continue
		}
		v := view("/offers", "panel=new")
		v.Failed, v.Typed = e, wrong
		has(t, render(t, pages.Offers(v, pages.Sales{})), `id="new-`+field+`" name="`+field+`" value="`+value+`"`, `aria-invalid="true"`)
	}
}
