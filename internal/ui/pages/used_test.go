package pages_test

import (
	"html"
	"slices"
	"strings"
	"testing"
	"time"

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
		`name="seen" value="`+pages.Seen(f.Wish.Create.Request), "Review again")
	v = view("/find", "panel=create&buy=milan/web/small&digest=d&units=4&for=30h") // the form asks for more than was reviewed
	v.Failed = api.Errorf(api.CodeConflict, "the form asks for something else")
	f.Wish = pages.ReadWish(v.Query, "team")
	page := render(t, pages.Find(v, f))
	has(t, page, "4 units, each 2 CPU for 0.08 EUR/hour: 9.60 EUR in all")
	hasNot(t, page, "approves each sale")
	f.Offers[0].Payload.Offer.ApproveWithin = &metav1.Duration{Duration: 2 * time.Hour}
	has(t, render(t, pages.Find(v, f)), "An admin of <bdi>milan</bdi> approves each sale, and may take 2h.")
}

// A plan has what is asked for if so many units of it are left as have the amounts. Buy reviews so many. The cheapest of
// a currency is first.
func TestPlansServeAmounts(t *testing.T) {
	plan := func(name, cpu, price, currency string, most int64) api.Plan {
		return api.Plan{Name: name, Resources: amounts("cpu", cpu), Units: &api.Units{Min: 1, Max: most},
			Price: &api.Price{Amount: price, Currency: currency, Period: "hour"}}
	}
	l := api.Listing{Seller: "milan", Name: "web", Plans: map[string]api.PlanListing{}}
	for name, p := range map[string]struct {
		plan api.Plan
		left int64
	}{
		"a-dear":    {plan("a-dear", "64", "9", "EUR", 1), 1},
		"b-cheap":   {plan("b-cheap", "16", "0.5", "EUR", 8), 8}, // 4 units: 2 EUR
		"c-dollars": {plan("c-dollars", "64", "1", "USD", 1), 1},
		"d-one":     {plan("d-one", "16", "0.1", "EUR", 1), 8}, // a contract has one unit
		"e-left":    {plan("e-left", "16", "0.1", "EUR", 8), 3},
		"f-small":   {plan("f-small", "2", "0.1", "EUR", 8), 8},
	} {
		l.Offer.Plans, l.Plans[name] = append(l.Offer.Plans, p.plan), api.PlanListing{Remaining: p.left}
	}
	long := plan("g-long", "64", "0.1", "EUR", 1)
	long.MinDuration = &metav1.Duration{Duration: 720 * time.Hour}
	l.Offer.Plans, l.Plans["g-long"] = append(l.Offer.Plans, long), api.PlanListing{Remaining: 1}
	v := view("/find", "cpu=64&for=24h")
	f := pages.Found{Wish: pages.ReadWish(v.Query, "team"), Offers: []api.Envelope[api.Listing]{{Payload: l}}}
	page := render(t, pages.Find(v, f))
	if n := strings.Count(page, " enough<"); n != 3 {
		t.Errorf("%d plans have 64 CPU for a day", n)
	}
	has(t, page, "4 units are enough", "1 unit is enough", "buy=milan%2Fweb%2Fb-cheap&amp;digest=&amp;for=24h&amp;panel=review&amp;units=4")
	at := -1
	for _, name := range []string{"b-cheap", "a-dear", "c-dollars", "d-one", "f-small", "g-long", "e-left"} {
		next := strings.Index(page, "milan / web / "+name)
		if next < at {
			t.Errorf("%s is before a cheaper plan:\n%s", name, page)
		}
		at = next
	}
}

// Offers that are the agent's copy say of when, and the field where suggests what the catalog shows.
func TestOffersOfTheCopySayOfWhen(t *testing.T) {
	at := metav1.NewTime(now.Add(-3 * time.Hour))
	offers := []api.Envelope[api.Listing]{{Payload: api.Listing{Seller: "milan", Name: "web", AsOf: &at, Offer: api.OfferSpec{
		Plans: []api.Plan{{Name: "small"}}}, Plans: map[string]api.PlanListing{"small": {}}, Properties: api.Properties{
		Zones: []string{"north"}, Labels: map[string]string{"100%d": "gold", hostile: "x"}}}}, {}}
	f := pages.Found{Offers: offers, Where: pages.Suggest([]pages.Neighbour{{Region: "eu-south", GPUs: []string{"A100"}}}, offers)}
	page := render(t, pages.Find(view("/find", ""), f))
	has(t, page, "The agent&#39;s own copy has 1 of 2 offers", "2026-05-04 09:00:00 UTC (3h ago)",
		`<option value="region == &#34;eu-south&#34;">`,
		`value="&#34;A100&#34; in gpus"`, `value="&#34;north&#34; in zones"`,
		`value="labels[&#34;100%d&#34;] == &#34;gold&#34;"`, `value="uptime &gt;= 0.99"`)
	hasNot(t, page, "onerror")
	f.Offers[0].Payload.AsOf = nil
	hasNot(t, render(t, pages.Find(view("/find", ""), f)), "own copy")
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
	a.Instructions = make([]api.ReservationInstruction, 1)
	a.Instructions[0].Status.Granted = amounts("cpu", "2", "memory", "1Gi")
	html := render(t, pages.Request(view("/requests/team/web", "panel=resize"), a))
	has(t, html, "CPU in use", "Memory in use", `id="panel" tabindex="-1" autofocus`)
	hasNot(t, html, api.ConditionAwaitsApproval, "GiB in use")
}

// A provider that was excluded can be admitted again, also after its virtual node is gone.
func TestAnExcludedProviderCanBeAdmitted(t *testing.T) {
	p := pages.Pool{NotPlan: api.Errorf(api.CodeUnavailable, "the agent is away")}
	p.Pool.ID, p.Pool.Payload.Spec.Providers.Exclude = "burst", []string{"milan"}
	page := render(t, pages.VirtualNodePool(view("/pools/burst", ""), p))
	has(t, page, "Disabled providers", "panel=admit", "id=milan", "the agent is away")
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

// A pool for which pods wait that it cannot serve is not idle: its page, its line and Home say so.
func TestAPoolThatCannotServePodsIsNotIdle(t *testing.T) {
	p := pages.Pool{}
	p.Pool.ID = "burst"
	p.Pool.Payload.Status.Pending.Not = []api.UncountedPods{{Reason: "NotYet", Count: 1}}
	lines := func() pages.Borrowed {
		return pages.NewBorrowed(pages.Listed{Pools: []api.Envelope[api.KnownVirtualNodePool]{p.Pool},
			Requests: slices.Values([]client.RequestStatus{})})
	}
	has(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)), "Idle", "once pods of its namespaces wait")
	has(t, render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: lines()})), "Nothing waits for you")
	s := &p.Pool.Payload.Status
	s.Pending.Not = append(s.Pending.Not, api.UncountedPods{Reason: "NotAllowed", Count: 5, Message: "its tolerations do not allow it"})
	s.Why = "5 pods wait that it cannot serve, such as team/web: its tolerations do not allow it"
	page := render(t, pages.VirtualNodePool(view("/pools/burst", ""), p))
	has(t, page, "Pods wait", s.Why, "The pool cannot serve the pods that wait.")
	hasNot(t, page, "Idle", "it has as much as its pods need", "once pods of its namespaces wait")
	has(t, render(t, pages.Borrowing(view("/borrowing", ""), lines())), "Pods wait", s.Why, "kubectl create -f burst.yaml")
	has(t, render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: lines()})), "“burst” cannot serve pods that wait", s.Why)
}

// A pool says each message once, in words that do not read as their opposite, and how its max is raised.
func TestAPoolSaysEachMessageOnce(t *testing.T) {
	const full = "max leaves no room for 3 more pods"
	p := pages.Pool{Plan: &api.VirtualNodePoolStatus{Why: full}}
	p.Pool.ID, p.Pool.Payload.Status.Why, p.Pool.Payload.Status.Pending.Counted = "burst", full, 3
	c := func(kind, reason, message string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	p.Pool.Payload.Status.Conditions = []metav1.Condition{c(api.ConditionReady, "Max", full, metav1.ConditionFalse),
		c(api.ConditionLimited, "Max", full, metav1.ConditionTrue),
		c(api.ConditionPodsComply, "ReservationUsedUp", "milan: it is used up", metav1.ConditionFalse),
		c(api.ConditionGranted, "Waiting", "milan: it is used up", metav1.ConditionFalse)}
	page := render(t, pages.VirtualNodePool(view("/pools/burst", ""), p))
	for _, message := range []string{full, "milan: it is used up"} {
		if n := strings.Count(page, message); n != 1 {
			t.Errorf("it says %d times %q", n, message)
		}
	}
	has(t, page, "not PodsComply (ReservationUsedUp), not Granted (Waiting)", "raise spec.max", "kubectl edit virtualnodepool burst")
	hasNot(t, page, "What it would do now")
	p.Plan.Why = "milan is asked for more"
	has(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)), "What it would do now", p.Plan.Why)
	line := pages.NewBorrowed(pages.Listed{Pools: []api.Envelope[api.KnownVirtualNodePool]{p.Pool},
		Requests: slices.Values([]client.RequestStatus{})})
	has(t, render(t, pages.Borrowing(view("/borrowing", ""), line)), `Max</span>`)
}

// The page of a pool shows what it used and reserved since then, as a chart and in words. Without samples it has neither.
func TestAPoolOverTime(t *testing.T) {
	p := pages.Pool{}
	p.Pool.Payload.Spec.Max = amounts("cpu", "8", "memory", "4Gi")
	p.Pool.Payload.Status.Used, p.Pool.Payload.Status.Reserved = amounts("cpu", "6"), amounts("cpu", "8", "memory", "2Gi")
	hasNot(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)), "Since", "figure")
	p.Samples = []pages.Sample{{At: now.Add(-100 * time.Second), Used: amounts("cpu", "2"), Reserved: amounts("cpu", "4")},
		{At: now.Add(-50 * time.Second), Used: amounts("cpu", "2"), Reserved: amounts("cpu", "8", "memory", "512Mi")},
		{At: now.Add(-25 * time.Second), Used: amounts("cpu", "500m"), Reserved: amounts("cpu", "8", "memory", "2Gi")}}
	html := render(t, pages.VirtualNodePool(view("/pools/burst", ""), p))
	has(t, html, "> used ", "> reserved ", "Since 11:58:20 UTC: 0.5–6 CPU used, 4–8 CPU reserved", "Since 11:58:20 UTC: 0 B used, 0 B–2 GiB reserved",
		`<path class="part second" d="M0 24V12.0H50.0V0.0H75.0H100.0V24Z">`, `<path class="part" d="M0 24V18.0H50.0H75.0V22.5H100.0V24Z">`)
	p.Samples = []pages.Sample{{At: now, Used: p.Pool.Payload.Status.Used, Reserved: p.Pool.Payload.Status.Reserved}}
	has(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)), "Since 12:00:00 UTC: 6 CPU used, 8 CPU reserved",
		`d="M0 24V6.0H100V24Z"`)
	p.Pool.Payload.Spec.Max, p.Pool.Payload.Status.Used, p.Pool.Payload.Status.Reserved = nil, amounts("cpu", "0"), nil
	p.Samples[0].Used, p.Samples[0].Reserved = nil, nil
	hasNot(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), p)), "NaN", "Inf")
}
