package federation_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// fair is a federation in which milan sells to rome and oslo.
type fair struct {
	*federation.Federation
	t                 *testing.T
	rome, milan, oslo *federation.Member
	interfaces        prototypes.Options // what the broker serves of the prototypes
	host              string             // where broker and connectors listen
}

func newFair(t *testing.T, change ...func(*fair)) *fair {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &fair{t: t, host: "127.0.0.1",
		rome: &federation.Member{Options: sim.Options{Name: "rome", Region: "eu", Nodes: 1}},
		oslo: &federation.Member{Options: sim.Options{Name: "oslo", Region: "eu", Nodes: 1}},
		milan: &federation.Member{Options: sim.Options{Name: "milan", Region: "eu", Nodes: 2, CPU: 8, Memory: 32},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}},
	}
	f.milan.Connector = true
	f.milan.Offers = map[string]api.OfferSpec{"web": webOffer("0.10")}
	for _, c := range change {
		c(f)
	}
	var err error
	if f.Federation, err = federation.StartAt(ctx, f.host, t.TempDir(), slog.New(slog.DiscardHandler),
		f.interfaces, f.rome, f.milan, f.oslo); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = f.Stop() })
	for _, m := range f.Members {
		f.until("the agent of "+m.Name+" listens", func() bool { _, err := m.People.Status(t.Context()); return err == nil })
		f.until("the broker has the card of "+m.Name, func() bool {
			c, err := f.Operator.Cluster(t.Context(), m.Name)
			return err == nil && c.Payload.Card != ""
		})
	}
	f.until("milan's offer is in rome's catalog, with something left", func() bool {
		l, err := f.rome.People.Offer(t.Context(), "milan", "web")
		return err == nil && l.Payload.Plans["small"].Remaining == 3
	})
	return f
}

// webOffer has three units of two cores.
func webOffer(price string) api.OfferSpec {
	return api.OfferSpec{Type: "compute", Plans: []api.Plan{{
		Name: "small", Resources: api.Resources{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")},
		Price: &api.Price{Amount: price, Currency: "EUR",
			Period: api.PeriodHour}, Quantity: 3, Units: &api.Units{Min: 1, Max: 3},
		MaxDuration: &metav1.Duration{Duration: 48 * time.Hour},
	}}}
}

func (f *fair) until(what string, holds func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within 90 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shares changes a member's SharingPolicy. Its agent writes the status meanwhile: an update would conflict.
func (f *fair) shares(m *federation.Member, change func(*api.Sharing)) {
	f.t.Helper()
	policy := &api.SharingPolicy{}
	if err := m.Objects.Get(f.t.Context(), kube.ObjectKey{Name: "default"}, policy); err != nil {
		f.t.Fatal(err)
	}
	before := policy.DeepCopy()
	change(&policy.Spec)
	if err := m.Objects.Patch(f.t.Context(), policy, kube.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

// buys makes a purchase of a member's people, and returns what becomes of it.
func (f *fair) buys(m *federation.Member, name string, p api.Purchase) api.ResourceRequestStatus {
	f.t.Helper()
	p.Seller, p.Offer, p.Plan = "milan", "web", "small"
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	r.Spec.Request = api.Request{Purchase: &p, Duration: &metav1.Duration{Duration: 10 * time.Hour}}
	return f.applies(m, r)
}

// applies creates a request as kubectl does, which evaluates nothing before, and returns its answer. It withdraws a
// refused request, which would ask again every few seconds and buy what is on sale later.
func (f *fair) applies(m *federation.Member, r *api.ResourceRequest) api.ResourceRequestStatus {
	f.t.Helper()
	if err := m.Objects.Create(f.t.Context(), r); err != nil {
		f.t.Fatal(err)
	}
	f.until("the purchase "+r.Name+" has an answer", func() bool {
		if err := m.Objects.Get(f.t.Context(), kube.ObjectKeyFromObject(r), r); err != nil {
			f.t.Fatal(err)
		}
		return answered(r.Status)
	})
	if r.Status.Refused() {
		if err := m.Objects.Delete(f.t.Context(), r); err != nil {
			f.t.Fatal(err)
		}
	}
	return r.Status
}

// answered reports whether a purchase has an answer.
func answered(s api.ResourceRequestStatus) bool {
	return s.State == api.Reserved || s.State.Over() && s.State != "" || s.Refused()
}

func (f *fair) contractsOf(m *federation.Member) map[string]api.Deal {
	f.t.Helper()
	all, err := m.People.Contracts(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]api.Deal{}
	for _, d := range all {
		out[d.Payload.Spec.Reservation] = d.Payload
	}
	return out
}

// Publish on one, visible on the other, buy: the same contract on both, which anybody can verify;
// resize within the plan; end.
func TestTrade(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	offer := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t)
	got := f.buys(f.rome, "shop", api.Purchase{Units: 2, Digest: offer.Payload.Digest})
	if got.State != api.Reserved || got.Provider != "milan" {
		t.Fatalf("%+v", got)
	}
	var bought, sold api.Deal
	f.until("both have the contract", func() bool {
		bought, sold = f.contractsOf(f.rome)[got.Reservation], f.contractsOf(f.milan)[got.Reservation]
		return bought.Spec.Assignment != "" && sold.Status.Terms.Units == 2 && bought.Status.Terms.Units == 2
	})
	if bought.Spec != sold.Spec || bought.Status.Cost != sold.Status.Cost || bought.Status.Cost != "2.00 EUR" {
		t.Errorf("bought %+v\nsold %+v", bought, sold)
	}
	terms, err := contract.Verify(bought.Spec)
	if err != nil || terms.Buyer != "rome" || terms.Seller != "milan" ||
		terms.Units != 2 || terms.Resources.Cpu().Value() != 4 || terms.Price.Amount != "0.10" {
		t.Errorf("verified: %+v, %v", terms, err)
	}
	f.until("one is left", func() bool {
		return must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Plans["small"].Remaining == 1
	})
	if second := f.buys(f.oslo, "too-many", api.Purchase{Units: 2, Digest: offer.Payload.Digest}); second.State.Counts() &&
		second.State != "" {
		t.Errorf("oslo got %+v of what is not there", second)
	}

	// The seller asks more from now on: what was bought keeps its price, and does not grow.
	_, err = f.milan.People.PutOffer(t.Context(), "web", webOffer("0.20"))
	if err != nil {
		t.Fatal(err)
	}
	f.until("the new price is shown", func() bool {
		return must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Offer.Plans[0].Price.Amount == "0.20"
	})
	if late := f.buys(f.oslo, "late", api.Purchase{Units: 1, Digest: offer.Payload.Digest}); late.State.Counts() &&
		late.State != "" {
		t.Errorf("oslo got %+v of an offer that has changed", late)
	}
	if cheap := f.buys(f.oslo, "cheap", api.Purchase{Units: 1, MaxPrice: &api.Price{Amount: "0.15",
		Currency: "EUR", Period: api.PeriodHour}}); cheap.State.Counts() && cheap.State != "" {
		t.Errorf("oslo pays %+v, more than it said", cheap)
	}
	if dear := f.buys(f.oslo, "dear", api.Purchase{Units: 1,
		MaxPrice: &api.Price{Amount: "0.2", Currency: "EUR", Period: api.PeriodHour}}); dear.State != api.Reserved {
		t.Errorf("oslo got %+v", dear)
	}
	if _, err := f.rome.People.ChangeLocally(t.Context(), got.Reservation, api.ReservationChange{Units: 1}); err != nil {
		t.Fatal(err)
	}
	f.until("rome has one unit, at its old price", func() bool {
		d, of := f.contractsOf(f.rome)[got.Reservation], f.contractsOf(f.milan)[got.Reservation]
		return d.Status.Terms.Units == 1 && of.Status.Terms.Units == 1 &&
			d.Status.Terms.Price.Amount == "0.10" && d.Spec == of.Spec && d.Status.Cost == of.Status.Cost
	})
	if err := f.rome.People.ReleaseLocally(t.Context(), got.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("it is over on both, and the record stays", func() bool {
		d, of := f.contractsOf(f.rome)[got.Reservation], f.contractsOf(f.milan)[got.Reservation]
		return d.Status.State == api.Released && of.Status.State == api.Released && of.Status.Ended != nil
	})
	if err := f.milan.People.DeleteOffer(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	f.until("nothing is on sale, and oslo keeps what it bought", func() bool {
		found, err := f.rome.People.Catalog(t.Context(), api.CatalogQuery{})
		if err != nil || len(found) > 0 {
			return false
		}
		for _, d := range f.contractsOf(f.milan) {
			if d.Status.Terms.Buyer == "oslo" && d.Status.State == api.Reserved {
				return true
			}
		}
		return false
	})
}

// While the broker is away, clusters that know each other go on trading: by the seller's connector.
// When it is back, the books agree.
func TestTradeWithoutBroker(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	before := f.buys(f.rome, "before", api.Purchase{MaxPrice: webOffer("0.10").Plans[0].Price})
	if before.State != api.Reserved {
		t.Fatalf("%+v", before)
	}
	f.Broker.Stop()
	f.until("rome sees that the broker is away",
		func() bool { return !must(f.rome.People.Status(t.Context()))(t).Connected })

	left := func(n int64) func() bool {
		return func() bool {
			l, err := f.rome.People.Offer(t.Context(), "milan", "web")
			return err == nil && l.Payload.Plans["small"].Remaining == n
		}
	}
	f.until("milan's connector shows what is left, with what was sold through the broker", left(2))
	offer := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t)
	direct := f.buys(f.rome, "direct", api.Purchase{Units: 2, Digest: offer.Payload.Digest})
	if direct.State != api.Reserved {
		t.Fatalf("%+v", direct)
	}
	if more := f.buys(f.rome, "more", api.Purchase{Units: 1, Digest: offer.Payload.Digest}); more.State.Counts() &&
		more.State != "" {
		t.Errorf("sold out, and rome got %+v", more)
	}
	if stranger := f.buys(f.oslo, "stranger", api.Purchase{Units: 1, Digest: offer.Payload.Digest}); stranger.State != "" {
		t.Errorf("oslo, which milan has never met, got %+v", stranger)
	}
	f.until("both have the contract, directly", func() bool {
		bought, sold := f.contractsOf(f.rome)[direct.Reservation], f.contractsOf(f.milan)[direct.Reservation]
		return bought.Spec.Assignment != "" && bought.Spec == sold.Spec
	})

	// What was bought through the broker ends without it, too, and what was bought without it changes.
	if err := f.rome.People.ReleaseLocally(t.Context(), before.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("what was bought through the broker is over", func() bool {
		return f.contractsOf(f.rome)[before.Reservation].Status.State == api.Released &&
			f.contractsOf(f.milan)[before.Reservation].Status.State == api.Released
	})
	f.until("its unit is on sale again", left(1))
	if _, err := f.rome.People.ChangeLocally(t.Context(), direct.Reservation,
		api.ReservationChange{Units: 3}); err != nil {
		t.Fatal(err)
	}
	f.until("it has three units on both sides", func() bool {
		bought, sold := f.contractsOf(f.rome)[direct.Reservation], f.contractsOf(f.milan)[direct.Reservation]
		return bought.Status.Terms.Units == 3 && sold.Status.Terms.Units == 3 && bought.Spec == sold.Spec
	})

	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("the broker's books agree: one is over, the other takes all that is sold", func() bool {
		old, err := f.Operator.Reservation(t.Context(), before.Reservation)
		if err != nil || old.Payload.State != api.Released {
			return false
		}
		milan, err := f.Operator.Cluster(t.Context(), "milan")
		reserved := milan.Payload.Pools[api.GeneralPool].Reserved
		return err == nil && reserved.Cpu().Value() == 6
	})
	if err := f.rome.People.ReleaseLocally(t.Context(), direct.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("it is over on both", func() bool {
		return f.contractsOf(f.rome)[direct.Reservation].Status.State == api.Released &&
			f.contractsOf(f.milan)[direct.Reservation].Status.State == api.Released
	})
}

// What was bought through the broker changes at the seller's connector while the broker is away,
// and the broker hears of it when it is back.
func TestChangeWithoutBroker(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	bought := f.buys(f.rome, "bought", api.Purchase{MaxPrice: webOffer("0.10").Plans[0].Price})
	if bought.State != api.Reserved {
		t.Fatalf("%+v", bought)
	}
	f.Broker.Stop()
	f.until("rome sees that the broker is away",
		func() bool { return !must(f.rome.People.Status(t.Context()))(t).Connected })
	if _, err := f.rome.People.ChangeLocally(t.Context(), bought.Reservation,
		api.ReservationChange{Units: 2}); err != nil {
		t.Fatal(err)
	}
	f.until("it has two units on both sides", func() bool {
		here, there := f.contractsOf(f.rome)[bought.Reservation], f.contractsOf(f.milan)[bought.Reservation]
		return here.Status.Terms.Units == 2 && there.Status.Terms.Units == 2 && here.Spec == there.Spec
	})
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("the broker counts two units", func() bool {
		r, err := f.Operator.Reservation(t.Context(), bought.Reservation)
		milan, err2 := f.Operator.Cluster(t.Context(), "milan")
		reserved := milan.Payload.Pools[api.GeneralPool].Reserved
		return err == nil && err2 == nil && r.Payload.State == api.Reserved &&
			r.Payload.Resources.Cpu().Value() == 4 && reserved.Cpu().Value() == 4
	})
}
