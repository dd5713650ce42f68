package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// purchase is of two units of milan's plan small, at 0.10 EUR an hour at most, for an hour.
func purchase(change func(*api.Purchase)) api.Request {
	p := &api.Purchase{Seller: "milan", Offer: "web", Plan: "small",
		MaxPrice: &api.Price{Amount: "0.10", Currency: "EUR", Period: api.PeriodHour}}
	if change != nil {
		change(p)
	}
	return api.Request{Purchase: p, Duration: &metav1.Duration{Duration: time.Hour}}
}

// What is published is found at once, as its seller signed it, by those to whom it is shown; what
// is bought of it stays bought.
func TestTradeOverREST(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan, oslo := f.Join("rome"), f.Join("milan"), f.Join("oslo")
	milan.Advertise("10")
	offer := milan.SignOffer("web", 1, transporttest.WebOffer("0.10"))
	inner := transporttest.WebOffer("0.05")
	inner.VisibleTo.Clusters = []string{"oslo"}
	for name, document := range map[string]string{"web": offer, "inner": milan.SignOffer("inner", 1, inner)} {
		if err := milan.PublishOffer(ctx, "milan", name, document); err != nil {
			t.Fatal(err)
		}
	}
	for who, want := range map[*servertest.Member]int{rome: 1, oslo: 2, milan: 2} {
		if found, err := who.Catalog(ctx, api.CatalogQuery{For: 10 * time.Hour}); err != nil || len(found) != want {
			t.Errorf("%s finds %d offers, want %d: %v", who.ID, len(found), want, err)
		}
	}
	found, err := rome.Catalog(ctx, api.CatalogQuery{For: 10 * time.Hour, Text: "WEB"})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d, %v", len(found), err)
	}
	l := found[0].Payload
	if l.Document != offer || l.Digest != clusterkey.Digest(offer).String() ||
		found[0].ID != "milan/web" || !l.Fresh || l.Properties.Region != "eu" ||
		l.Plans["small"] != (api.PlanListing{Remaining: 8, Cost: "2.00"}) || l.Plans["large"].Remaining != 5 {
		t.Errorf("found %+v", l)
	}
	if _, err := rome.Offer(ctx, "milan", "inner"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("an offer that is for oslo: %v", err)
	}
	if found, err := f.Operator.Catalog(ctx, api.CatalogQuery{}); err != nil || len(found) != 1 {
		t.Errorf("the operator sees %d, %v", len(found), err)
	}

	evaluation, err := rome.Evaluate(ctx, purchase(nil))
	if err != nil || evaluation.Decision.Chosen != "milan" {
		t.Errorf("%+v, %v", evaluation.Decision, err)
	}
	r, err := rome.Reserve(ctx, "key", purchase(nil))
	if err != nil || r.Payload.State != api.Held || r.Payload.Offer != offer ||
		*r.Payload.Sale != (api.Sale{Offer: l.Digest, Plan: "small", Units: 2}) || r.Payload.Resources.Cpu().Value() != 2 {
		t.Fatalf("%+v, %v", r.Payload, err)
	}
	if _, err := oslo.Reservation(ctx, r.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("another's contract: %v", err)
	}
	if left := must(rome.Offer(ctx, "milan", "web"))(t).Payload.Plans["small"].Remaining; left != 6 {
		t.Errorf("%d are left of 8, after 2", left)
	}
	confirmed, err := rome.Confirm(ctx, r.ID, rome.Assign(r))
	if err != nil {
		t.Fatal(err)
	}
	if err := milan.WithdrawOffer(ctx, "milan", "web"); err != nil {
		t.Fatal(err)
	}
	bound, err := milan.Accept(ctx, r.ID, milan.Agree(confirmed))
	if err != nil || bound.Payload.State != api.Reserved || bound.Payload.Offer != offer {
		t.Errorf("%+v, %v", bound.Payload, err)
	}
	if _, err := rome.Reserve(ctx, "another", purchase(nil)); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("bought what is off sale: %v", err)
	}

	// An earlier request has the same answer after any change of the offer. The same key for another purchase
	// is refused.
	again, err := rome.Reserve(ctx, "key", purchase(nil))
	now := must(rome.Reservation(ctx, r.ID))(t)
	if diff := cmp.Diff(now.Payload.Sale, again.Payload.Sale); err != nil || again.ID != r.ID || diff != "" {
		t.Errorf("the retry: %s, %v %s", again.ID, err, diff)
	}
	if err := milan.PublishOffer(ctx, "milan", "web",
		milan.SignOffer("web", 2, transporttest.WebOffer("0.20"))); err != nil {
		t.Fatal(err)
	}
	if again, err := rome.Reserve(ctx, "key", purchase(nil)); err != nil || again.ID != r.ID {
		t.Errorf("the retry, at another price: %s, %v", again.ID, err)
	}
	if _, err := rome.Reserve(ctx, "key",
		purchase(func(p *api.Purchase) { p.MaxPrice.Amount = "0.20" })); api.CodeOf(err) != api.CodeKeyReused {
		t.Errorf("the key, for another purchase: %v", err)
	}
	if _, err := oslo.Reserve(ctx, "key", purchase(nil)); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("another's key: %v", err)
	}
}

func TestHostileOffers(t *testing.T) {
	ctx := context.Background()
	w := newFixture(t)
	good := w.milan.SignOffer("web", 5, transporttest.WebOffer("0.10"))
	if err := w.milan.PublishOffer(ctx, "milan", "web", good); err != nil {
		t.Fatal(err)
	}
	publish := func(name, signed string, want api.Code, field string) call {
		return call{name: "publish: " + name, by: w.milan.HTTP, method: "PUT",
			path: "/clusters/milan/offers/web", body: document(signed), want: want, field: field}
	}
	says := func(name, field string, change func(*api.SignedOffer)) call {
		o := api.SignedOffer{Protocol: api.Protocol, Seller: "milan",
			Name: "web", Version: 6, Offer: transporttest.WebOffer("0.10")}
		change(&o)
		return publish(name, w.milan.Sign(api.DocumentOffer, o), api.CodeInvalid, field)
	}
	plan := func(name, field string, change func(*api.Plan)) call {
		return says(name, "document."+field, func(o *api.SignedOffer) { change(&o.Offer.Plans[0]) })
	}
	buy := func(name string, want api.Code, field string, change func(*api.Purchase)) call {
		return call{name: "buy: " + name, by: w.rome.HTTP, method: "POST", path: "/reservations",
			body: wrote(api.ReservationCreate{Request: purchase(change)}), want: want, field: "request." + field}
	}
	search := func(name, query, field string) call {
		return call{name: "search: " + name, by: w.rome.HTTP, method: "GET",
			path: "/catalog?" + query, want: api.CodeInvalid, field: field}
	}
	as := func(c call, by *http.Client, path string, want api.Code, field string) call {
		c.by, c.path, c.want, c.field = by, path, want, field
		return c
	}
	w.refused(t, []call{
		publish("nothing", "", api.CodeBadSignature, "document"),
		publish("not a document", "x.y.z", api.CodeBadSignature, "document"),
		publish("too large for one", strings.Repeat("x", 70_000), api.CodeTooLarge, ""),
		publish("of another kind", w.milan.Sign(api.DocumentCard, api.SignedOffer{}), api.CodeBadSignature, "document"),
		publish("signed by another", w.rome.Sign(api.DocumentOffer, api.SignedOffer{Protocol: api.Protocol,
			Seller: "milan", Name: "web", Version: 6, Offer: transporttest.WebOffer("0.01")}), api.CodeBadSignature, "document"),
		publish("rewritten", rewritten(good, w.rome.SignOffer("web", 6, transporttest.WebOffer("0.01"))),
			api.CodeBadSignature, "document"),
		publish("an older version", w.milan.SignOffer("web", 4, transporttest.WebOffer("0.01")), api.CodeConflict, "version"),
		publish("the same version, otherwise", w.milan.SignOffer("web", 5, transporttest.WebOffer("0.01")),
			api.CodeConflict, "version"),
		says("of another seller", "document", func(o *api.SignedOffer) { o.Seller = "rome" }),
		says("of another name", "document", func(o *api.SignedOffer) { o.Name = "other" }),
		says("of a name that is none", "document.name", func(o *api.SignedOffer) { o.Name = "a b\x1b" }),
		says("of no version", "document.version", func(o *api.SignedOffer) { o.Version = 0 }),
		says("of another protocol", "document.protocol", func(o *api.SignedOffer) { o.Protocol = 99 }),
		says("CEL that is none", "document.accept", func(o *api.SignedOffer) { o.Offer.Accept = "consumer.region ==" }),
		says("CEL of what is unknown", "document.accept", func(o *api.SignedOffer) { o.Offer.Accept = "secret" }),
		says("CEL that is no yes or no", "document.accept", func(o *api.SignedOffer) { o.Offer.Accept = "1" }),
		says("no plans", "document.plans", func(o *api.SignedOffer) { o.Offer.Plans = nil }),
		says("too many plans", "document.plans", func(o *api.SignedOffer) { o.Offer.Plans = make([]api.Plan, 17) }),
		says("two plans of one name", "document.plans", func(o *api.SignedOffer) { o.Offer.Plans[1].Name = "small" }),
		says("an escape in words", "document.description", func(o *api.SignedOffer) { o.Offer.Description = "\x1b[2J" }),
		says("too many words", "document.description",
			func(o *api.SignedOffer) { o.Offer.Description = strings.Repeat("ü", 1025) }),
		says("a type of two lines", "document.type", func(o *api.SignedOffer) { o.Offer.Type = "a\x00" }),
		says("too many labels", "document.labels", func(o *api.SignedOffer) { o.Offer.Labels = crowd(33) }),
		plan("a currency that is none", "plans.small.price.currency", func(p *api.Plan) { p.Price.Currency = "QQQ" }),
		plan("an amount that is none", "plans.small.price.amount", func(p *api.Plan) { p.Price.Amount = "-0.10" }),
		plan("a period that is none", "plans.small.price.period", func(p *api.Plan) { p.Price.Period = "blink" }),
		plan("resources of nothing", "plans.small.resources", func(p *api.Plan) { p.Resources = nil }),
		plan("a negative amount", "plans.small.resources.cpu", func(p *api.Plan) { p.Resources = transporttest.CPU("-1") }),
		plan("more than any cluster has", "plans.small.resources.cpu",
			func(p *api.Plan) { p.Resources = transporttest.CPU("999E") }),
		plan("a pool that is no name", "plans.small.pool", func(p *api.Plan) { p.Pool = "a b" }),
		plan("a plan that is no name", "plans.name", func(p *api.Plan) { p.Name = "Small\x1b" }),
		plan("a negative quantity", "plans.small.quantity", func(p *api.Plan) { p.Quantity = -1 }),
		plan("less than one contract has", "plans.small.quantity", func(p *api.Plan) { p.Quantity = 1 }),
		plan("units the wrong way round", "plans.small.units", func(p *api.Plan) { p.Units.Min, p.Units.Max = 3, 2 }),
		plan("durations the wrong way round", "plans.small.maxDuration",
			func(p *api.Plan) { p.MinDuration = &metav1.Duration{Duration: 100 * time.Hour} }),
		plan("a negative duration", "plans.small.maxDuration",
			func(p *api.Plan) { p.MaxDuration = &metav1.Duration{Duration: -time.Hour} }),

		as(publish("in another's name", good, "", ""), w.rome.HTTP,
			"/clusters/milan/offers/web", api.CodeForbidden, "cluster"),
		as(publish("another's as one's own", good, "", ""), w.rome.HTTP,
			"/clusters/rome/offers/web", api.CodeBadSignature, "document"),
		as(publish("under another name", good, "", ""), w.milan.HTTP,
			"/clusters/milan/offers/other", api.CodeInvalid, "document"),
		as(publish("by who waits for approval", good, "", ""), w.lima.HTTP,
			"/clusters/lima/offers/web", api.CodeNotMember, ""),
		as(publish("by nobody", good, "", ""), w.nobody, "/clusters/milan/offers/web", api.CodeUnauthenticated, ""),
		{name: "withdraw: another's", by: w.rome.HTTP, method: "DELETE",
			path: "/clusters/milan/offers/web", want: api.CodeForbidden, field: "cluster"},
		{name: "search: by who waits for approval", by: w.lima.HTTP,
			method: "GET", path: "/catalog", want: api.CodeNotMember},
		search("a duration of words", "for=ever", "for"),
		search("no duration", "for=-1h", "for"),
		search("an order that is none", "sort=luck", "query.sort"),
		search("a continue that is none", "continue=-1", "continue"),
		search("more than there may be", "limit=100000", "query.limit"),
		search("too many words", "text="+strings.Repeat("x", 200), "query.text"),

		buy("at no price", api.CodeConflict, "purchase.maxPrice", func(p *api.Purchase) { p.MaxPrice = nil }),
		buy("for less", api.CodeConflict, "purchase.maxPrice", func(p *api.Purchase) { p.MaxPrice.Amount = "0.09" }),
		buy("by another digest", api.CodeConflict, "purchase.digest", func(p *api.Purchase) { p.Digest = "SHA256:AAAA" }),
		buy("units that are not sold", api.CodeInvalid, "purchase.units", func(p *api.Purchase) { p.Units = 3 }),
		buy("negative units", api.CodeInvalid, "purchase.units", func(p *api.Purchase) { p.Units = -2 }),
		buy("a plan that is none", api.CodeNotFound, "purchase.plan", func(p *api.Purchase) { p.Plan = "huge" }),
		buy("an offer that is none", api.CodeNotFound, "purchase.offer", func(p *api.Purchase) { p.Offer = "none" }),
	})
}

// rewritten is one document with the payload of another.
func rewritten(document, payload string) string {
	parts := strings.Split(document, ".")
	return parts[0] + "." + strings.Split(payload, ".")[1] + "." + parts[2]
}

// What is signed of a purchase is what is held: of that offer, plan and number of units, from then on.
func TestHostileAssignmentsOfAPurchase(t *testing.T) {
	ctx := context.Background()
	w := newFixture(t)
	if err := w.milan.PublishOffer(ctx, "milan", "web",
		w.milan.SignOffer("web", 5, transporttest.WebOffer("0.10"))); err != nil {
		t.Fatal(err)
	}
	held := must(w.rome.Reserve(ctx, "buy", purchase(nil)))(t)
	bound := must(w.rome.Reserve(ctx, "bought", purchase(nil)))(t)
	bound = must(w.rome.Confirm(ctx, bound.ID, w.rome.Assign(bound)))(t)
	must(w.milan.Accept(ctx, bound.ID, w.milan.Agree(bound)))(t)
	confirm := func(name, id string, a api.Assignment, want api.Code, field string, change func(*api.Assignment)) call {
		sale := *a.Sale
		a.Sale = &sale
		change(&a)
		return call{name: name, by: w.rome.HTTP, method: "POST", path: "/reservations/" + id + "/confirm",
			body: document(w.rome.Sign(api.DocumentAssignment, a)), want: want, field: field}
	}
	assign := func(name, field string, change func(*api.Assignment)) call {
		return confirm("assign: "+name, held.ID, w.rome.Assignment(held), api.CodeInvalid, field, change)
	}
	become := func(name string, want api.Code, field string, change func(*api.Assignment)) call {
		a := w.rome.Assignment(bound)
		a.Generation, a.Begins = 2, transporttest.Seconds(time.Now())
		return confirm("change: "+name, bound.ID, a, want, field, change)
	}
	w.refused(t, []call{
		assign("no sale", "document.sale", func(a *api.Assignment) { a.Sale = nil }),
		assign("another offer", "document.sale", func(a *api.Assignment) { a.Sale.Offer = "SHA256:AAAA" }),
		assign("another plan", "document.sale", func(a *api.Assignment) { a.Sale.Plan = "large" }),
		assign("fewer units", "document.sale", func(a *api.Assignment) { a.Sale.Units = 1 }),
		assign("more for it", "document.resources", func(a *api.Assignment) { a.Resources = transporttest.CPU("4") }),
		assign("that begins later", "document.begins",
			func(a *api.Assignment) { a.Begins = metav1.NewTime(a.Begins.Add(time.Minute)) }),
		become("more for the same", api.CodeInvalid, "document.resources",
			func(a *api.Assignment) { a.Resources = transporttest.CPU("4") }),
		become("units that are not sold", api.CodeInvalid, "document.resources",
			func(a *api.Assignment) { a.Sale.Units, a.Resources = 3, transporttest.CPU("3") }),
		become("more units than are left", api.CodeInsufficient, "", func(a *api.Assignment) {
			a.Sale.Units, a.Resources = 6, transporttest.CPU("6")
			must(w.oslo.Reserve(ctx, "rest", purchase(func(p *api.Purchase) { p.Units = 4 })))(t)
		}),
		become("no sale", api.CodeInvalid, "document.sale", func(a *api.Assignment) {
			a.Sale, a.Begins = nil, w.rome.Assignment(bound).Begins
		}),
		become("another plan", api.CodeInvalid, "document.sale", func(a *api.Assignment) { a.Sale.Plan = "large" }),
		become("another offer", api.CodeInvalid, "document.sale", func(a *api.Assignment) { a.Sale.Offer = "SHA256:AAAA" }),
		become("paid for later", api.CodeInvalid, "document.begins",
			func(a *api.Assignment) { a.Begins = transporttest.Seconds(time.Now().Add(time.Hour)) }),
		become("paid for before", api.CodeInvalid, "document.begins",
			func(a *api.Assignment) { a.Begins = transporttest.Seconds(time.Now().Add(-time.Hour)) }),
	})
}

// wrote is a body.
func wrote(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// must turns an error of a preparation into the end of the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
