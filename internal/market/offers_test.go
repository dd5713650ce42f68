package market_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// offered is a version of an offer, as its seller signed it.
func offered(t rapid.TB, seller, name string, version int64, spec api.OfferSpec) *market.Offer {
	t.Helper()
	payload, err := json.Marshal(api.SignedOffer{Protocol: api.Protocol,
		Seller: seller, Name: name, Version: version, Offer: spec})
	if err != nil {
		t.Fatal(err)
	}
	o, err := market.ReadOffer("x." + base64.RawURLEncoding.EncodeToString(payload) + ".y")
	if err != nil {
		t.Fatal(err)
	}
	o.Digest = fmt.Sprintf("SHA256:%s/%s/%d", seller, name, version)
	return o
}

// webPlans are two plans: small has that many units of one core, and only capacity bounds any.
func webPlans(quantity int64) api.OfferSpec {
	units := &api.Units{Min: 1, Max: 4}
	return api.OfferSpec{Plans: []api.Plan{
		{Name: "small", Resources: resources("cpu", "1"), Quantity: quantity,
			Units: units, Price: &api.Price{Amount: "0.10", Currency: "EUR", Period: api.PeriodHour}},
		{Name: "any", Resources: resources("cpu", "1"), Units: units},
	}}
}

// sold checks that a command sold no unit beyond the quantity, and no plan off sale. Adopted reservations do not
// count: they were promised before.
func (f *federation) sold(n *node, c market.Command, before map[string]int64) {
	switch c := c.(type) {
	case market.Publish, market.Withdraw, market.Note:
		return
	case market.SetMember: // takes the member's offers off sale at once; its reservations end by later ticks
		if c.State == api.MemberRemoved {
			return
		}
	}
	for plan, after := range left(n) {
		if was, known := before[plan]; after < 0 && (!known || after < was) && !adopts(c) {
			f.t.Fatalf("%T took %s from %d to %d", c, plan, was, after)
		}
	}
}

// left is what is left of each plan, the slow way: of one that is not on sale, or no longer has
// that plan, nothing.
func left(n *node) map[string]int64 {
	out, quantity := map[string]int64{}, map[string]int64{}
	for _, o := range n.state.Offers() {
		for i := range o.Plans {
			if id := o.Key() + "/" + o.Plans[i].Name; o.OnSale {
				quantity[id], out[id] = o.Plans[i].Quantity, o.Plans[i].Quantity
			}
		}
	}
	for _, r := range n.state.All() {
		if r.Sale == nil || r.Offer == nil || !r.State.Counts() {
			continue
		}
		id := r.Offer.Key() + "/" + r.Sale.Plan
		if q, onSale := quantity[id]; !onSale || q > 0 {
			out[id] -= r.Units()
		}
	}
	return out
}

// remembers demands that offers are kept as long as something refers to them, and no longer.
func (n *node) remembers() {
	n.t.Helper()
	refers := map[string]bool{}
	for _, r := range n.state.All() {
		if r.Sale != nil {
			refers[r.Sale.Offer] = true
			if r.Offer == nil || r.Offer.Digest != r.Sale.Offer || r.Offer.Plan(r.Sale.Plan) == nil {
				n.t.Fatalf("%s is from an offer that is forgotten, or has no such plan", dump(r))
			}
		}
	}
	newest := map[string]string{}
	for _, o := range n.state.Offers() {
		if !o.OnSale && !refers[o.Digest] && !n.torn[o.Digest] {
			n.t.Fatalf("nothing refers to %s any more: %s", o.Digest, dump(o))
		}
		if o.OnSale {
			if newest[o.Key()] != "" {
				n.t.Fatalf("%s is on sale as %s, too", o.Digest, newest[o.Key()])
			}
			newest[o.Key()] = o.Digest
		}
	}
	for key, digest := range newest {
		seller, name, _ := strings.Cut(key, "/")
		if on := n.state.OnSale(seller, name); on == nil || on.Digest != digest {
			n.t.Fatalf("%s is not what is on sale: %s", digest, dump(on))
		}
	}
}

// publish signs a new version of an offer, or shows an old one again, to the seller's own gate, to
// the broker, or both.
func (f *federation) publish(t *rapid.T) {
	seller, name := rapid.SampledFrom(providers).Draw(t,
		"seller"), rapid.SampledFrom([]string{"web", "shop"}).Draw(t, "name")
	f.versions++
	version := f.versions
	if f.rarely("again") {
		version = rapid.Int64Range(1, f.versions).Draw(t, "version")
	}
	digest := fmt.Sprintf("SHA256:%s/%s/%d", seller, name, version)
	o := f.signed[digest]
	if o == nil {
		spec := webPlans(rapid.Int64Range(1, 5).Draw(t, "quantity"))
		if f.rarely("ends") {
			spec.ValidUntil = &metav1.Time{Time: f.now.Go().Add(time.Hour)}
		}
		if f.rarely("another plan") {
			spec.Plans = spec.Plans[1:]
		}
		o = offered(t, seller, name, version, spec)
		f.signed[digest] = o
	}
	if !f.rarely("not at the gate") {
		f.do(f.gates[seller], market.Publish{Offer: o})
	}
	if !f.rarely("not at the broker") {
		f.do(f.broker, market.Publish{Offer: o})
	}
}

func (f *federation) withdraw(t *rapid.T) {
	c := market.Withdraw{Seller: rapid.SampledFrom(providers).Draw(t, "seller"), Name: "web"}
	f.do(rapid.SampledFrom([]*node{f.broker, f.gates[c.Seller]}).Draw(t, "market"), c)
}

// buy holds units of a plan: mostly of one that is on sale.
func (f *federation) buy(t *rapid.T) {
	var all []*market.Offer
	for _, o := range f.broker.state.Offers() {
		if o.OnSale || f.rarely("off sale") {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return
	}
	o := rapid.SampledFrom(all).Draw(t, "offer")
	plan, units := rapid.SampledFrom([]string{"small", "small", "any"}).Draw(t,
		"plan"), rapid.Int64Range(1, 4).Draw(t, "units")
	out, err := f.do(f.broker, &market.Hold{
		ID: f.next("c"), Key: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t,
			"key"), Digest: rapid.SampledFrom([]string{"d", "e"}).Draw(t, "digest"),
		Consumer: f.cluster(), Pool: "general", Size: cpu(units), Request: &api.Request{Purchase: &api.Purchase{Seller: o.Signed.Seller, Offer: o.Signed.Name, Plan: plan}},
		Sale: &api.Sale{Offer: o.Digest, Plan: plan,
			Units: units}, Duration: time.Hour, Candidates: []string{o.Signed.Seller},
		Decision: &api.Decision{Considered: 1, Candidates: 1},
	})
	if err == nil && len(out.Events) > 0 && out.Reservation.State == api.Held &&
		(!f.broker.state.Offer(o.Digest).OnSale || out.Reservation.From == 0) {
		t.Fatalf("sold what is not on sale, or for no time: %s", dump(out.Reservation))
	}
}

// offerOf is the offer that a reservation is from, nil if from none: as the agent finds it with
// what the broker shows.
func (f *federation) offerOf(r *market.Reservation) *market.Offer {
	if r.Sale == nil {
		return nil
	}
	return f.signed[r.Sale.Offer]
}

// changed is the assignment of what a reservation is to become.
func changed(a api.Assignment, r *market.Reservation) api.Assignment {
	a.Generation, a.Until = r.Change.Generation, r.Change.Until.Meta()
	if r.Sale != nil {
		a.Sale = &api.Sale{Offer: r.Sale.Offer, Plan: r.Sale.Plan, Units: r.Change.Units}
		a.Begins = r.Change.From.Meta()
	}
	return a
}

// version is what milan's offer is at, to be put on sale.
func version(t rapid.TB, n int64) market.Publish {
	return market.Publish{Offer: offered(t, "rome", "web", n, webPlans(2))}
}

func TestPublish(t *testing.T) {
	d := newTestBroker(t)
	d.must(version(t, 5))
	if out := d.must(version(t, 5)); len(out.Events) > 0 || out.Offer.Signed.Version != 5 {
		t.Errorf("published twice: %s", dump(out))
	}
	d.fails(api.CodeConflict, version(t, 4))
	d.must(version(t, 6))
	if all := d.state.Offers(); len(all) != 1 || all[0].Signed.Version != 6 {
		t.Errorf("on sale: %s", dump(all))
	}
	d.must(market.Withdraw{Seller: "rome", Name: "web"})
	d.must(market.Withdraw{Seller: "rome", Name: "web"})
	d.must(market.Withdraw{Seller: "nobody", Name: "web"})
	if all := d.state.Offers(); len(all) != 0 {
		t.Errorf("remembered: %s", dump(all))
	}
	d.fails(api.CodeNotMember, market.Publish{Offer: offered(t, "oslo", "web", 1, webPlans(1))})
}

func TestMaxOffers(t *testing.T) {
	d := newTestBroker(t)
	name := func(i int) market.Publish {
		return market.Publish{Offer: offered(t, "rome", fmt.Sprint("o", i), 1, webPlans(1))}
	}
	for i := range api.MaxOffers {
		if _, err := d.do(name(i), d.now); err != nil {
			t.Fatal(err)
		}
	}
	d.fails(api.CodeTooLarge, name(api.MaxOffers))
	d.must(market.Publish{Offer: offered(t, "rome", "o0", 2, webPlans(1))}) // a new version of one is no more
	d.must(market.Withdraw{Seller: "rome", Name: "o7"})
	d.must(name(api.MaxOffers))
}

// bought is paris's hold on units of a version of rome's plan small.
func bought(id string, version, units int64) *market.Hold {
	return &market.Hold{ID: id, Digest: "digest", Consumer: "paris",
		Pool: "general", Size: cpu(units), Duration: time.Hour, Candidates: []string{"rome"},
		Sale: &api.Sale{Offer: fmt.Sprintf("SHA256:rome/web/%d", version), Plan: "small", Units: units},
		Request: &api.Request{Purchase: &api.Purchase{Seller: "rome",
			Offer: "web", Plan: "small"}}, Decision: &api.Decision{Considered: 1, Candidates: 1}}
}

// Sold units of one version count against the next. Sales stay, and are remembered, after any change of the offer.
func TestSoldOfManyVersions(t *testing.T) {
	d := newTestBroker(t)
	d.must(version(t, 1))
	d.must(bought("r", 1, 1))
	d.must(version(t, 2))
	d.fails(api.CodeConflict, bought("old", 1, 1))
	d.fails(api.CodeInsufficient, bought("many", 2, 2))
	d.must(bought("s", 2, 1))
	d.fails(api.CodeInsufficient, bought("none", 2, 1))
	d.must(market.Withdraw{Seller: "rome", Name: "web"})
	d.fails(api.CodeConflict, bought("late", 2, 1))
	if n := len(d.state.Offers()); n != 2 {
		t.Errorf("%d offers are remembered, for two reservations", n)
	}
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "acceptance"}) // it was held before
	d.pass(2 * time.Hour)
	d.must(market.Free{ID: "r", Provider: "rome"})
	d.pass(2 * market.Retention)
	if all := d.state.Offers(); len(all) != 0 {
		t.Errorf("still remembered: %s", dump(all))
	}
}

// A contract grows and lasts longer only while its plan is on sale as it was bought; it can always
// become less.
func TestAContractGrowsAsItWasBought(t *testing.T) {
	d := newTestBroker(t)
	d.must(version(t, 1))
	d.must(bought("r", 1, 1))
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "acceptance"})
	until := d.state.Reservation("r").Until
	generation := int64(1)
	become := func(units int64, until market.Time) market.Reassign {
		generation++
		return market.Reassign{ID: "r", Consumer: "paris", Generation: generation,
			Size: cpu(units), Units: units, From: d.now, Until: until, Document: fmt.Sprint("assignment ", generation)}
	}
	accepted := func(c market.Reassign) {
		t.Helper()
		d.must(c)
		d.must(market.Accept{ID: "r", Provider: "rome", Generation: c.Generation,
			Document: fmt.Sprint("acceptance ", c.Generation)})
	}
	d.fails(api.CodeInsufficient, become(3, until))
	d.pass(time.Minute)
	accepted(become(2, until))
	r := d.state.Reservation("r")
	if r.From != noon+60_000 || len(r.Past) != 1 || r.Past[0] != (market.Stretch{From: noon, Units: 1}) ||
		r.Sale.Units != 2 {
		t.Errorf("%s", dump(r))
	}
	d.fails(api.CodeInsufficient, bought("s", 1, 1))
	accepted(become(2, until+60_000))
	if r := d.state.Reservation("r"); r.From != noon+60_000 || len(r.Past) != 1 {
		t.Errorf("a later end made another stretch: %s", dump(r))
	}
	d.must(version(t, 2))
	d.fails(api.CodeConflict, become(2, until+120_000))
	accepted(become(1, until))
	d.fails(api.CodeConflict, become(2, until))
	d.must(bought("t", 2, 1))
	d.fold() // a snapshot gives back the same
	before := dump(d.state.Reservation("r"))
	d.restart(len(d.journal))
	d.offers("rome", 9, "8")
	if after := dump(d.state.Reservation("r")); after != before || d.state.Reservation("r").Offer == nil {
		t.Errorf("it was %s and is %s", before, after)
	}
	d.must(market.Release{ID: "r", By: "paris", Generation: d.state.Reservation("r").Generation, Document: "end"})
	if r := d.state.Reservation("r"); r.Ended != d.now {
		t.Errorf("it ended at %d", r.Ended)
	}
}

// What a buyer makes both sides remember has an end.
func TestAContractChangesOnlySoOften(t *testing.T) {
	d := newTestBroker(t)
	d.must(version(t, 1))
	d.must(bought("r", 1, 1))
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "acceptance"})
	become := func(generation int64) market.Reassign {
		units := 2 - generation%2
		return market.Reassign{ID: "r", Consumer: "paris", Generation: generation, Size: cpu(units),
			Units: units, From: d.now, Until: d.state.Reservation("r").Until, Document: fmt.Sprint("assignment ", generation)}
	}
	generation := int64(2)
	for ; generation < 2+market.MaxStretches; generation++ {
		d.must(become(generation))
		d.must(market.Accept{ID: "r", Provider: "rome", Generation: generation,
			Document: fmt.Sprint("acceptance ", generation)})
	}
	d.fails(api.CodeConflict, become(generation))
	later := become(generation - 1)
	later.Generation, later.Document, later.Until = generation, "for longer", later.Until+60_000
	d.must(later) // another end is no stretch
}

func TestOffersHaveTheirTime(t *testing.T) {
	d := newTestBroker(t)
	spec := webPlans(2)
	spec.ValidFrom, spec.ValidUntil = &metav1.Time{Time: noon.Go().Add(time.Minute)}, &metav1.Time{Time: noon.Go().Add(2 * time.Minute)}
	d.must(market.Publish{Offer: offered(t, "rome", "web", 1, spec)})
	d.fails(api.CodeConflict, bought("early", 1, 1))
	d.pass(time.Minute)
	d.must(bought("r", 1, 1))
	d.pass(time.Minute)
	d.offers("rome", 2, "8")
	d.fails(api.CodeConflict, bought("late", 1, 1))
}

// A gate whose Ledger lost all takes back what it sold, with the offer, and sells none of it twice.
func TestGateAdoptsWhatItSold(t *testing.T) {
	d := newGate(t)
	a := assigned("r", 1, 2, "doc")
	a.Assignment.Sale = &api.Sale{Offer: "SHA256:rome/web/1", Plan: "small", Units: 2}
	a.Assignment.Begins = noon.Meta()
	d.fails(api.CodeNotFound, a)
	a.Adopt, a.Offer = true, offered(t, "rome", "web", 1, webPlans(2))
	d.must(a)
	d.must(version(t, 2))
	other := assigned("s", 1, 1, "doc s")
	other.Assignment.Sale = &api.Sale{Offer: "SHA256:rome/web/2", Plan: "small", Units: 1}
	d.fails(api.CodeInsufficient, other)
}

// A reservation never changes its plan, also not one that was dropped and signed again.
func TestGateAdmitsAReservationFromOnePlanOnly(t *testing.T) {
	d := newGate(t)
	d.must(version(t, 1))
	sale := func(generation, version int64) market.Admit {
		a := assigned("r", generation, 1, fmt.Sprint("doc ", generation))
		a.Assignment.Sale = &api.Sale{Offer: fmt.Sprintf("SHA256:rome/web/%d", version), Plan: "small", Units: 1}
		return a
	}
	d.must(sale(1, 1))
	d.must(version(t, 2))
	d.fails(api.CodeConflict, sale(2, 2))
	d.pass(90 * time.Second)
	d.offers("rome", 2, "8")
	d.want("r", api.Released, api.ReasonAcceptanceDropped, "rome", 8000)
	d.fails(api.CodeConflict, sale(2, 2))
}

// A cluster that is removed sells nothing, nor does one that comes back under its name with another key.
func TestWhoIsRemovedSellsNothing(t *testing.T) {
	d := newTestBroker(t)
	d.must(version(t, 1))
	d.must(bought("r", 1, 1))
	d.must(market.SetMember{Cluster: "rome", State: api.MemberRemoved})
	d.must(market.CreateToken{Token: market.Token{ID: "again", Hash: "h", Cluster: "rome", Expires: d.now + 1000}})
	again := market.Join{TokenID: "again", Hash: "h", Cluster: "rome", Key: "another", TLSKey: "x"}
	d.fails(api.CodeUnavailable, again) // until what it had before has ended
	d.pass(0)
	d.must(again)
	if o := d.state.OnSale("rome", "web"); o != nil {
		t.Errorf("on sale, signed by a key that is gone: %s", dump(o))
	}
}

// Any signed text is read, or refused with an error that names a field. Nothing panics.
func FuzzReadOffer(f *testing.F) {
	for _, payload := range []string{
		`{"protocol":1,"seller":"rome","name":"web","version":1,"offer":{"plans":[{"name":"small","resources":{"cpu":"2"},"price":{"amount":"0.10","currency":"EUR","period":"hour"},"units":{"min":1,"max":8,"step":2},"quantity":4}]}}`,
		`{"seller":"rome","name":"web","version":1,"offer":{"plans":[{"name":"a","resources":{"cpu":"9e18"},"minDuration":"1h","maxDuration":"2h"},{"name":"a"}]}}`,
		`{"offer":{"plans":[null]}}`, `null`, `{`, ``,
	} {
		f.Add("x."+base64.RawURLEncoding.EncodeToString([]byte(payload))+".y", int64(3))
	}
	f.Add("a.b", int64(0))
	f.Fuzz(func(t *testing.T, document string, units int64) {
		o, err := market.ReadOffer(document)
		if err != nil {
			if api.CodeOf(err) != api.CodeInvalid {
				t.Errorf("no clear error: %v", err)
			}
			return
		}
		for i := range o.Plans {
			p := &o.Plans[i]
			sale, _, size, err := o.Fulfils(api.Request{Purchase: &api.Purchase{Seller: o.Signed.Seller,
				Offer: o.Signed.Name, Plan: p.Name, Units: units, Digest: o.Digest, MaxPrice: p.Plan.Price}}, noon.Go(), time.Hour)
			if err != nil {
				continue
			}
			for _, a := range size {
				if a.Value <= 0 {
					t.Errorf("%d units are %s", units, dump(size))
				}
			}
			if err := o.Covers(*sale, p.Pool, size); err != nil {
				t.Errorf("it does not sell what it sells: %v", err)
			}
		}
	})
}
