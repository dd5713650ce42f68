package pages_test

import (
	"html"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

func TestAPurchaseIsReviewedWithItsPrice(t *testing.T) {
	v := view("/find", "panel=review&buy=milan/web/small&digest=d&units=2&for=3h")
	f := pages.Found{Wish: pages.ReadWish(v.Query, "team"), Offers: []api.Envelope[api.Listing]{{Payload: api.Listing{
		Seller: "milan", Name: "web", Offer: api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: amounts("cpu", "2"),
			Price: &api.Price{Amount: "0.08", Currency: "EUR", Period: "hour"}}}},
		Plans: map[string]api.PlanListing{"small": {Remaining: 4}}}}}}
	has(t, render(t, pages.Find(v, f)), "2 units, each 2 CPU for 0.08 EUR/hour: 0.48 EUR in all",
		`name="seen" value="`+pages.Seen(f.Wish.Spec()), "Review again")
	v = view("/find", "panel=create&buy=milan/web/small&digest=d&units=4&for=30h") // the form asks for more than was reviewed
	v.Failed = api.Errorf(api.CodeConflict, "the form asks for something else")
	f.Wish = pages.ReadWish(v.Query, "team")
	has(t, render(t, pages.Find(v, f)), "4 units, each 2 CPU for 0.08 EUR/hour: 9.60 EUR in all")
}

// Who may not create requests in the namespace of the form finds no open act, why, and the command that lets them.
func TestWhoMayNotBuyIsToldWhoCanLetThem(t *testing.T) {
	for panel, acts := range map[string]string{"": `disabled>Buy<`, "review": `disabled>Create the request<`,
		"propose&id=milan/web/small": `disabled>Send the proposal<`} {
		v := view("/find", "cpu=1&namespace=team&buy=milan/web/small&panel="+panel)
		v.May, v.User = pages.Rights{}, "ann o'neil"
		f := pages.Found{Wish: pages.ReadWish(v.Query, "default"), Evaluation: &api.Evaluation{}, Offers: []api.Envelope[api.Listing]{
			{Payload: api.Listing{Seller: "milan", Name: "web", Offer: api.OfferSpec{Plans: []api.Plan{{Name: "small",
				Resources: amounts("cpu", "2")}}}, Plans: map[string]api.PlanListing{"small": {Remaining: 4}}}}}}
		page := render(t, pages.Find(v, f))
		has(t, page, acts, "disabled>Buy<", "disabled>Negotiate<", "disabled>Review and create<", "cannot create proposals there",
			html.EscapeString(`bourse auth grant `+pages.Quote(v.User)+` -n default | kubectl apply -f -`))
		hasNot(t, page, "panel=review", "all namespaces")
		if !strings.HasPrefix(panel, "propose") {
			has(t, page, "cannot create resourcerequests there", "Name another namespace", "-n team | kubectl apply -f -")
		}
		v.May = everything
		page = render(t, pages.Find(v, f))
		hasNot(t, page, "bourse auth grant", "disabled>")
		has(t, page, "namespace=team&amp;panel=review")
	}
}

func TestARefusalIsShownOnce(t *testing.T) {
	v := view("/find", "panel=create&cpu=1&namespace=demo")
	v.Failed = api.Errorf(api.CodeForbidden, "namespace demo is not yours")
	f := pages.Found{Wish: pages.ReadWish(v.Query, "team"), Failed: v.Failed}
	if n := strings.Count(render(t, pages.Find(v, f)), v.Failed.Detail); n != 1 {
		t.Errorf("the page has the refusal %d times", n)
	}
	v = view("/find", "panel=review&cpu=1")
	if n := strings.Count(render(t, pages.Find(v, f)), f.Failed.Detail); n != 1 {
		t.Errorf("the review has the refusal %d times", n)
	}
}

func TestARefusedFormHasAnAddress(t *testing.T) {
	v := view("/lending", "panel=refuse&id=r-1&done=x")
	v.Failed = api.Invalid("reason", "it is too long")
	page := render(t, pages.Layout(v, pages.Refusal(v.Failed)))
	has(t, page, `data-still="/s/0/lending?id=r-1&amp;panel=refuse"`)
}

func TestWhatAnActMadeCanBeCopied(t *testing.T) {
	v := view("/", "")
	v.Done = "Hand it over:\nbourse.abc"
	has(t, render(t, pages.Layout(v, pages.Refusal(nil))), "Hand it over:", `data-copy="bourse.abc"`)
}

// A request whose provider has approved it waits for nobody, and each amount has its name.
func TestARequestNamesWhatIsInUse(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web", Request: client.RequestStatus{}}
	a.Request.Payload.Status.Message = "Active"
	a.Request.Payload.Status.Conditions = condition(api.ConditionAwaitsApproval, metav1.ConditionFalse, "Active", "")
	a.Instruction = &api.ReservationInstruction{}
	a.Instruction.Status.Granted = amounts("cpu", "2", "memory", "1Gi")
	page := render(t, pages.Request(view("/requests/team/web", "panel=resize"), a))
	has(t, page, "CPU in use", "Memory in use", `id="panel" tabindex="-1" autofocus`)
	hasNot(t, page, api.ConditionAwaitsApproval, "GiB in use")
}

// A pool at its limit does not say that it grows.
func TestAPoolAtItsLimitDoesNotGrow(t *testing.T) {
	p := pages.Pool{}
	p.Pool.Payload.Status.Pending.Counted = 3
	has(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)), "3 pods can be served, and the pool grows for them.")
	p.Pool.Payload.Status.Conditions = condition(api.ConditionLimited, metav1.ConditionTrue, "Max", "max leaves no room for 3 more pods")
	has(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)),
		"3 pods can be served, but the pool cannot grow: max leaves no room for 3 more pods.")
}
