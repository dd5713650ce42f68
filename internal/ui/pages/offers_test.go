package pages_test

import (
	"errors"
	"html"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
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

// The form of a new offer makes a draft with its plans. Each field that is wrong is named, and what was typed stays.
func TestANewOfferIsAForm(t *testing.T) {
	form := url.Values{"offer": {"web"}, "plans.0.name": {"small"}, "plans.0.resources.cpu": {"2"}, "plans.0.resources.memory": {"4Gi"},
		"plans.0.price": {"0.10EUR/hour"}, "plans.0.quantity": {"5"}, "plans.0.units.max": {"4"}, "plans.0.maxDuration": {"30d"},
		"type": {"compute"}, "plans.1.name": {"gpu"}, "plans.1.resources.nvidia.com/gpu": {"1"}, "plans.2.name": {""}}
	spec, err := pages.ReadOffer(form, api.OfferSpec{Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pages.YAML(spec), "draft: true", "type: compute", "cpu: \"2\"", "memory: 4Gi", "amount: \"0.10\"",
		"quantity: 5", "min: 1", "max: 4", "maxDuration: 720h0m0s", "name: gpu", "nvidia.com/gpu: \"1\"")
	if len(spec.Plans) != 2 {
		t.Errorf("the offer has %d plans", len(spec.Plans))
	}
	for field, value := range map[string]string{"resources.cpu": "two", "price": "cheap", "quantity": "-1", "units.max": "x", "maxDuration": "soon"} {
		wrong := maps.Clone(form)
		wrong.Set("plans.0."+field, value)
		_, err := pages.ReadOffer(wrong, api.OfferSpec{Draft: true})
		e, is := errors.AsType[*api.Error](err)
		if !is || e.Field != "plans.small."+field {
			t.Errorf("%s %q is answered %v", field, value, err)
			continue
		}
		v := view("/offers", "panel=new")
		v.Failed, v.Typed = e, wrong
		html := render(t, pages.Offers(v, pages.Sales{}))
		has(t, html, `name="plans.0.`+field+`" value="`+value+`"`, `name="plans.1.name" value="gpu"`, `name="plans.2.name" value=""`)
		if n := strings.Count(html, `aria-invalid="true"`); n != 1 {
			t.Errorf("%d fields are marked for %s", n, e.Field)
		}
	}
}

// The form of an offer begins with what is in force. What it does not show stays, and is named.
func TestAnOfferIsEditedByAForm(t *testing.T) {
	offer := anyOffer("web", "OnSale", "True", false)
	was := &offer.Payload.Spec
	was.Description, was.Labels, was.ApproveWithin = "For\nall.", map[string]string{"tier": "gold"}, &metav1.Duration{Duration: time.Hour}
	was.Plans[0].Resources["example.com/fpga"] = resource.MustParse("1")
	was.Plans[0].Units.Step = 3
	was.Plans = append(was.Plans, api.Plan{Name: "rack", Resources: amounts("cpu", "64"), Dedicated: true, Pool: "big"})
	s := pages.Sales{Offers: []api.Envelope[api.OwnOffer]{offer}, Git: map[string]string{}}
	html := render(t, pages.Offers(view("/offers", "panel=edit&id=web"), s))
	has(t, html, `name="plans.0.price" value="0.08EUR/hour"`, `name="plans.1.resources.cpu" value="64"`, `name="plans.2.name" value=""`,
		"For\nall.</textarea>", "as=yaml", `name="plans.1.remove"`, "kubectl", "bourse offer edit web")
	_, beyond, _ := strings.Cut(html, "stay as they are: <code>")
	beyond, _, _ = strings.Cut(beyond, "</code>")
	for _, path := range []string{"approveWithin", "labels.tier", "plans.small.resources.example.com/fpga", "plans.small.notice", "plans.small.units.step",
		"plans.rack.dedicated", "plans.rack.pool"} {
		has(t, beyond, path)
	}
	hasNot(t, beyond, "price", "description", "units.min", "cpu", "draft")

	form := shown(html)
	if same, err := pages.ReadOffer(form, *was); err != nil || pages.Seen(same) != pages.Seen(*was) {
		t.Errorf("what nobody changed is now\n%s%v", pages.YAML(same), err)
	}
	form.Set("description", "For\r\nall.") // as browsers send it
	form.Set("plans.0.price", "0.10EUR/hour")
	form.Set("plans.0.name", "tiny")
	form.Set("plans.1.resources.cpu", "32")
	form.Set("plans.1.units.max", "2")
	form.Set("plans.2.name", "gpu")
	form.Set("plans.2.resources.nvidia.com/gpu", "1")
	next, err := pages.ReadOffer(form, *was)
	if err != nil {
		t.Fatal(err)
	}
	want := *was.DeepCopy()
	want.Plans[0].Name, want.Plans[0].Price.Amount = "tiny", "0.10"
	want.Plans[1].Resources["cpu"], want.Plans[1].Units = resource.MustParse("32"), &api.Units{Min: 1, Max: 2}
	want.Plans = append(want.Plans, api.Plan{Name: "gpu", Resources: amounts("nvidia.com/gpu", "1")})
	if pages.YAML(next) != pages.YAML(want) {
		t.Errorf("the form makes\n%s, want\n%s", pages.YAML(next), pages.YAML(want))
	}
	form.Set("plans.1.remove", "yes")
	if next, err = pages.ReadOffer(form, *was); err != nil || next.Plan("rack") != nil || len(next.Plans) != 2 {
		t.Errorf("a plan that is removed: %v\n%s", err, pages.YAML(next))
	}
	s.Git["web"] = "Argo CD"
	has(t, render(t, pages.Offers(view("/offers", "panel=edit&id=web"), s)), "is kept by Argo CD", "<button disabled>Review</button>")
}

// A review names each change exactly, what signed contracts keep, and the commands that do the same.
func TestTheReviewOfAnOffer(t *testing.T) {
	offer := anyOffer("web", "OnSale", "True", false)
	was := offer.Payload.Spec
	was.Plans = append(was.Plans, api.Plan{Name: "rack", Resources: amounts("cpu", "64")})
	offer.Payload.Spec = was
	next := *was.DeepCopy()
	next.Plans = next.Plans[:1]
	next.Plans[0].Price.Amount = "0.10"
	next.Plans[0].Resources["cpu"] = resource.MustParse("2001m")
	next.Plans[0].Notice = nil
	next.Plans = append(next.Plans, api.Plan{Name: "gpu", Resources: amounts("nvidia.com/gpu", "1"), Dedicated: true})
	v := view("/offers", "panel=edit&id=web")
	v.AgentNamespace = "bourse-system"
	v.Preview, v.Typed = pages.OfferReview{Before: was, After: next}, url.Values{"seen": {pages.Seen(was)}}
	html := render(t, pages.Offers(v, pages.Sales{Offers: []api.Envelope[api.OwnOffer]{offer}}))
	for path, texts := range map[string][2]string{"plans.small.price": {"0.08 EUR/hour", "0.10 EUR/hour"},
		"plans.small.resources.cpu": {"2 CPU", "2001m CPU"}, "plans.small.notice": {"10m0s", "none"},
		"plans.rack": {"64 CPU for free", "none"}, "plans.gpu": {"none", "1 GPU for free, the whole pool"}} {
		has(t, html, "<code>"+path+`</code></td><td data-label="Now">`+texts[0]+`</td><td data-label="After">`+texts[1]+"</td>")
	}
	hasNot(t, html, "<code>plans.small.quantity", "<code>plans.gpu.dedicated", "<code>plans.small</code>")
	has(t, html, "Sold now: 2 units of small. Their contracts keep price, amounts and notice to their end.", "Write it",
		`name="reviewed" value="`+pages.Seen(next)+`"`, "kubectl -n bourse-system patch offer web --type merge -p", "2001m")
}

var input = regexp.MustCompile(`<(?:input|textarea)[^>]* name="([^"]+)"(?: value="([^"]*)")?[^>]*>([^<]*)`)

// shown returns what the form of an offer's fields would send.
func shown(page string) url.Values {
	_, form, _ := strings.Cut(page, `<form method="post"`)
	form, _, _ = strings.Cut(form, "</form>")
	out := url.Values{}
	for _, f := range input.FindAllStringSubmatch(form, -1) {
		if !strings.HasSuffix(f[1], ".remove") {
			out.Set(f[1], html.UnescapeString(f[2]+f[3]))
		}
	}
	return out
}
