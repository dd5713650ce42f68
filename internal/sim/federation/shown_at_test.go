package federation_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// soldOnThreeRoutes is milan, which sold a unit to each of three consumers: to oslo through the main broker, to
// rome through north, and to bonn at its connector. None of the three is a member where another one is. sold has
// the reservation of each.
func soldOnThreeRoutes(t *testing.T) (f *fair, north *federation.Broker, bonn *federation.Member, sold map[string]string) {
	t.Helper()
	one := func(name string, alone bool) *federation.Member {
		return &federation.Member{Options: sim.Options{Name: name, Nodes: 1}, Alone: alone}
	}
	f, bonn = &fair{t: t, rome: one("rome", true), oslo: one("oslo", false), milan: one("milan", false)}, one("bonn", true)
	f.milan.Nodes, f.milan.CPU, f.milan.Memory, f.milan.Connector = 2, 8, 32, true
	f.milan.Sharing = &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}
	f.milan.Offers = map[string]api.OfferSpec{"web": webOffer("0.10")}
	ctx, stop := context.WithCancel(t.Context())
	f.Federation = must(federation.Start(ctx, t.TempDir(), slog.New(slog.DiscardHandler), f.rome, f.milan, f.oslo, bonn))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })
	for _, m := range f.Members {
		f.until("the agent of "+m.Name+" listens", func() bool { _, err := m.People.Status(t.Context()); return err == nil })
	}
	north = must(f.StartOther("north"))(t)
	f.joins(north, f.rome, f.milan)
	must(bonn.People.AddPeer(t.Context(), "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	must(f.milan.People.AddPeer(t.Context(), "bonn", f.fingerprint(bonn), ""))(t)
	for _, m := range []*federation.Member{f.rome, f.oslo, bonn} {
		f.until(m.Name+" sees the offer", func() bool {
			l, err := m.People.Offer(t.Context(), "milan", "web")
			return err == nil && l.Payload.Plans["small"].Remaining > 0
		})
		via := api.ViaBroker
		if m == bonn {
			via = api.ViaDirect
		}
		must(m.People.MakeRequest(t.Context(), api.RequestCreate{Name: "unit", Via: via, Request: api.Request{
			Duration: &metav1.Duration{Duration: 10 * time.Hour}, Purchase: &api.Purchase{Seller: "milan", Offer: "web",
				Plan: "small", MaxPrice: webOffer("0.10").Plans[0].Price}}}))(t)
	}
	sold = map[string]string{}
	for _, m := range []*federation.Member{f.rome, f.oslo, bonn} {
		f.becomes(m, "unit", func(s api.ResourceRequestStatus) bool {
			sold[m.Name] = s.Reservation
			return s.State == api.Reserved
		})
	}
	return f, north, bonn, sold
}

// remaining is how many units of milan's plan a broker says are left, -1 if it does not show the offer.
func (f *fair) remaining(at *client.Client) int64 {
	found, err := at.Catalog(f.t.Context(), api.CatalogQuery{})
	if err != nil || len(found) != 1 {
		return -1
	}
	return found[0].Payload.Plans["small"].Remaining
}

// reservedAt is how many cores of milan a broker counts as reserved, empty if it shows none.
func (f *fair) reservedAt(at *client.Client) string {
	c, err := at.Cluster(f.t.Context(), "milan")
	if err != nil {
		return err.Error()
	}
	pool, shown := c.Payload.Pools[api.GeneralPool]
	if cpu := pool.Reserved["cpu"]; shown {
		return cpu.String()
	}
	return ""
}

// Two brokers and the connector of one seller each sell to a consumer of their own. All count what the others
// sold, and no broker receives the name or the reservation of a consumer of another one.
func TestABrokerLearnsOnlyOfItsOwnConsumers(t *testing.T) {
	t.Parallel()
	f, north, _, sold := soldOnThreeRoutes(t)
	for name, at := range map[string]*client.Client{"main": f.Operator, "north": north.Operator} {
		f.until(name+" counts all three units", func() bool { return f.remaining(at) == 0 && f.reservedAt(at) == "6" })
	}
	f.startsAgain(f.Operator, north.Operator)
	for name, at := range map[string]*client.Client{"main": f.Operator, "north": north.Operator} {
		f.until(name+" counts all three units after a start of the agent", func() bool {
			return f.remaining(at) == 0 && f.reservedAt(at) == "6"
		})
	}
	f.Broker.Stop() // both write down what they received
	north.Stop()
	for broker, own := range map[string]string{"broker": "oslo", "north": "rome"} {
		kept := f.filesOf(broker)
		for consumer, id := range sold {
			for _, text := range []string{consumer, id} {
				if is := strings.Contains(kept, text); is != (consumer == own) {
					t.Errorf("%s has %q: %t", broker, text, is)
				}
			}
		}
		if !strings.Contains(kept, `"Commitments"`) {
			t.Errorf("%s has no advertisement", broker)
		}
	}
}

// startsAgain starts milan's agent again, and waits until it has advertised to these brokers.
func (f *fair) startsAgain(brokers ...*client.Client) {
	f.t.Helper()
	f.StopMember("milan")
	stopped := time.Now().UnixMilli()
	f.StartMember("milan")
	for _, at := range brokers {
		f.until("milan advertises after its start", func() bool {
			c, err := at.Cluster(f.t.Context(), "milan")
			return err == nil && c.Payload.Sequence.Incarnation >= stopped
		})
	}
	f.until("milan's agent listens", func() bool { _, err := f.milan.People.Status(f.t.Context()); return err == nil })
}

// filesOf is all that a broker has stored.
func (f *fair) filesOf(broker string) string {
	f.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(f.Dir, broker), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return all.String()
}

// A broker that takes the place and the name of another one is shown what was made there, and adopts it. What
// was sold elsewhere it counts without names, as the one before.
func TestABrokerIsReplaced(t *testing.T) {
	t.Parallel()
	f, north, _, sold := soldOnThreeRoutes(t)
	north.Stop()
	next := must(f.StartOther("next"))(t)
	for _, m := range []*federation.Member{f.rome, f.milan} {
		if err := m.People.DeleteBroker(t.Context(), "north"); err != nil {
			t.Fatal(err)
		}
		f.until("north is gone at "+m.Name, func() bool { return f.brokerState(m, "north") == "" })
		token := must(next.Operator.CreateToken(t.Context(), m.Name, time.Hour))(t)
		must(m.People.PutBroker(t.Context(), "north", api.BrokerSpec{Join: token.Token}))(t)
	}
	f.until("the next broker adopts what rome bought", func() bool {
		r, err := next.Operator.Reservation(t.Context(), sold["rome"])
		return err == nil && r.Payload.State == api.Reserved
	})
	f.until("it counts all three units", func() bool {
		return f.remaining(next.Operator) == 0 && f.reservedAt(next.Operator) == "6"
	})
	if all := must(next.Operator.Reservations(t.Context()))(t); len(all) != 1 {
		t.Errorf("it has %d reservations", len(all))
	}
}

// sharesAt sets the brokers in milan's SharingPolicy.
func (f *fair) sharesAt(brokers ...string) {
	f.t.Helper()
	var policy api.SharingPolicy
	if err := f.milan.Objects.Get(f.t.Context(), kube.ObjectKey{Name: "default"}, &policy); err != nil {
		f.t.Fatal(err)
	}
	before := policy.DeepCopy()
	policy.Spec.Brokers = brokers
	if err := f.milan.Objects.Patch(f.t.Context(), &policy, kube.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

// A SharingPolicy that names brokers shows capacity and offers there alone, also after a start of the agent.
// What was made at another broker stays to its end, and nothing new is made there.
func TestSharedAtSomeBrokers(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	north := must(f.StartOther("north"))(t)
	f.joins(north, f.rome, f.milan, f.oslo)
	before := f.buysAt(f.oslo, "main", "before", 1)
	if before.State != api.Reserved {
		t.Fatalf("%+v", before)
	}
	alone := func(when string) {
		t.Helper()
		f.until("north alone shows milan "+when, func() bool {
			return f.remaining(north.Operator) == 2 && f.reservedAt(north.Operator) == "2" &&
				f.remaining(f.Operator) == -1 && f.reservedAt(f.Operator) != ""
		})
		f.until("nothing of milan fits at main "+when, func() bool {
			found, err := f.rome.People.Evaluate(t.Context(), api.Request{Target: "milan",
				Resources: api.Resources{"cpu": resource.MustParse("1")}})
			return err == nil && found.Decision.Chosen == ""
		})
		if r := must(f.Operator.Reservation(t.Context(), before.Reservation))(t); r.Payload.State != api.Reserved {
			t.Errorf("what oslo has at main is %s %s", r.Payload.State, when)
		}
	}
	f.sharesAt("north")
	alone("after the change")
	f.startsAgain(f.Operator, north.Operator)
	alone("after a start")
	if s := f.buysAt(f.rome, "main", "at-main", 1); s.State == api.Reserved {
		t.Errorf("bought at a broker that is not named: %+v", s)
	}
	if s := f.buysAt(f.rome, "north", "at-north", 1); s.State != api.Reserved {
		t.Errorf("bought at the broker that is named: %+v", s)
	}

	// A name that no broker has: a condition and a problem, with a remedy. The others count.
	f.sharesAt("north", "south")
	says := func(is bool) func() bool {
		return func() bool {
			var policy api.SharingPolicy
			if err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy); err != nil {
				return false
			}
			c := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionUnknownBrokers)
			d, err := f.milan.People.Diagnose(t.Context())
			found := slices.ContainsFunc(d.Problems, func(p api.Problem) bool {
				return p.Code == health.UnknownBroker.Code && strings.Contains(p.Remedy, "bourse brokers add south")
			})
			return err == nil && found == is && (c != nil && strings.Contains(c.Message, "bourse brokers add south")) == is
		}
	}
	f.until("the condition and the doctor name south", says(true))
	f.until("north still shows milan", func() bool { return f.remaining(north.Operator) == 1 })
	f.sharesAt("north")
	f.until("they name it no more", says(false))

	// The end of what oslo has reaches milan through main, which is not named.
	if err := f.oslo.People.ReleaseLocally(t.Context(), before.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("it is free again", func() bool {
		r, err := f.Operator.Reservation(t.Context(), before.Reservation)
		return err == nil && r.Payload.State == api.Released && f.remaining(north.Operator) == 2
	})
	f.sharesAt()
	f.until("main shows milan again", func() bool {
		return f.remaining(f.Operator) == 2 && f.reservedAt(f.Operator) == "2"
	})
}
