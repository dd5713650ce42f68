package federation_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// joins has members join another broker, and waits until they are connected.
func (f *fair) joins(o *federation.Broker, members ...*federation.Member) {
	f.t.Helper()
	for _, m := range members {
		token, err := o.Operator.CreateToken(f.t.Context(), m.Name, time.Hour)
		if err != nil {
			f.t.Fatal(err)
		}
		if _, err := m.People.PutBroker(f.t.Context(), o.Name, api.BrokerSpec{Join: token.Token}); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, m := range members {
		f.until(m.Name+" is connected to "+o.Name, func() bool { return f.brokerState(m, o.Name) == "Connected" })
	}
}

// brokerState is how a broker stands with a member, empty if it is none of its.
func (f *fair) brokerState(m *federation.Member, name string) string {
	for _, b := range must(m.People.Brokers(f.t.Context()))(f.t) {
		if b.ID == name {
			return meta.FindStatusCondition(b.Payload.Status.Conditions, api.ConditionConnected).Reason
		}
	}
	return ""
}

func (f *fair) buysAt(m *federation.Member, broker, name string, units int64) api.ResourceRequestStatus {
	f.t.Helper()
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	r.Spec.Broker, r.Spec.Duration = broker, &metav1.Duration{Duration: 10 * time.Hour}
	r.Spec.Purchase = &api.Purchase{Seller: "milan", Offer: "web", Plan: "small",
		Units: units, MaxPrice: webOffer("0.10").Plans[0].Price}
	return f.applies(m, r)
}

// A cluster that has joined two brokers sells at both, and what it sells is one offer, counted
// once. People disable, enable and remove brokers; nothing that was agreed through one ends by
// that.
func TestTwoBrokers(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	north, err := f.StartOther("north")
	if err != nil {
		t.Fatal(err)
	}
	f.joins(north, f.rome, f.milan)
	f.until("milan's offer is on sale at both", func() bool {
		here, err := f.Operator.Catalog(t.Context(), api.CatalogQuery{})
		there, err2 := north.Operator.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && err2 == nil && len(here) == 1 && len(there) == 1 &&
			there[0].Payload.Plans["small"].Remaining == 3 && here[0].Payload.Digest == there[0].Payload.Digest
	})
	if found := must(f.rome.People.Catalog(t.Context(), api.CatalogQuery{}))(t); len(found) != 1 ||
		found[0].Payload.AsOf != nil {
		t.Errorf("rome finds %d offers, of one", len(found))
	}

	// Bought by two ways: three units there are, and no more are sold.
	at := f.buysAt(f.rome, "north", "at-north", 2)
	if at.State != api.Reserved {
		t.Fatalf("%+v", at)
	}
	if _, err := north.Operator.Reservation(t.Context(), at.Reservation); err != nil {
		t.Errorf("north does not know what was bought there: %v", err)
	}
	if s := f.buysAt(f.oslo, "", "too-many", 2); s.State.Counts() && s.State != "" {
		t.Errorf("oslo got two of one at the other broker: %+v", s)
	}
	// Until milan's next report, the broker may count the refused purchase and the one at north together.
	f.until("the other broker knows that one is left", func() bool {
		return must(f.Operator.Catalog(t.Context(), api.CatalogQuery{}))(t)[0].Payload.Plans["small"].Remaining == 1
	})
	if s := f.buysAt(f.oslo, "", "last", 1); s.State != api.Reserved {
		t.Errorf("oslo did not get the last: %+v", s)
	}
	f.until("both say that nothing is left", func() bool {
		return must(f.Operator.Catalog(t.Context(), api.CatalogQuery{}))(t)[0].Payload.Plans["small"].Remaining == 0 &&
			must(north.Operator.Catalog(t.Context(), api.CatalogQuery{}))(t)[0].Payload.Plans["small"].Remaining == 0
	})
	if s := f.buysAt(f.rome, "south", "nowhere", 1); s.State != api.Rejected || !strings.Contains(s.Message, "south") {
		t.Errorf("asked at a broker that is none of its: %+v", s)
	}

	// Without the main broker the other goes on; then without both.
	f.Broker.Stop()
	f.until("rome sees that", func() bool { return f.brokerState(f.rome, "main") == string(api.CodeUnavailable) })
	if found := must(f.rome.People.Catalog(t.Context(), api.CatalogQuery{}))(t); len(found) != 1 ||
		found[0].Payload.AsOf != nil {
		t.Errorf("with one of two brokers: %+v", found)
	}
	if err := f.rome.People.ReleaseLocally(t.Context(), at.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("what was bought at north ends at milan, and two are left there", func() bool {
		return f.contractsOf(f.milan)[at.Reservation].Status.State == api.Released &&
			must(north.Operator.Catalog(t.Context(), api.CatalogQuery{}))(t)[0].Payload.Plans["small"].Remaining == 2
	})
	again := f.buysAt(f.rome, "", "by-the-second", 1)
	if again.State != api.Reserved {
		t.Fatalf("by the broker that is there: %+v", again)
	}

	// Disabled, it is as if it were away; over a restart, too. Enabled, all is as it was.
	if _, err := f.rome.People.PutBroker(t.Context(), "north", api.BrokerSpec{Disabled: true}); err != nil {
		t.Fatal(err)
	}
	f.until("it is disabled", func() bool { return f.brokerState(f.rome, "north") == "Disabled" })
	f.StopMember("rome")
	f.StartMember("rome")
	f.until("rome's doctor says what goes on", func() bool {
		d, err := f.rome.People.Diagnose(t.Context())
		codes := ""
		for _, p := range d.Problems {
			codes += p.Code + " "
		}
		return err == nil && strings.Contains(codes, "WithoutBroker") && strings.Contains(codes, "GoesOn")
	})
	if state := f.brokerState(f.rome, "north"); state != "Disabled" {
		t.Errorf("after a restart it is %s", state)
	}
	if _, err := f.rome.People.PutBroker(t.Context(), "north", api.BrokerSpec{}); err != nil {
		t.Fatal(err)
	}
	f.until("it is enabled", func() bool { return f.brokerState(f.rome, "north") == "Connected" })

	// Removed: what was bought there stays bought.
	if err := f.rome.People.DeleteBroker(t.Context(), "north"); err != nil {
		t.Fatal(err)
	}
	f.until("it is gone", func() bool { return f.brokerState(f.rome, "north") == "" })
	time.Sleep(300 * time.Millisecond)
	if got := f.contractsOf(f.rome)[again.Reservation].Status.State; got != api.Reserved {
		t.Errorf("what was bought at a broker that was removed is %s", got)
	}
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("the first broker, back, counts what was sold by the other", func() bool {
		found, err := f.Operator.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && len(found) == 1 && found[0].Payload.Fresh && found[0].Payload.Plans["small"].Remaining == 1
	})
}

func TestBrokersThatCannotBe(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	for name, c := range map[string]struct {
		name  string
		spec  api.BrokerSpec
		field string
	}{
		"no token":        {"north", api.BrokerSpec{}, "join"},
		"no token at all": {"north", api.BrokerSpec{Join: "x"}, "join"},
	} {
		_, err := f.rome.People.PutBroker(t.Context(), c.name, c.spec)
		if e, ok := err.(*api.Error); !ok || e.Code != api.CodeInvalid ||
			!strings.Contains(e.Field, c.field) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.rome.People.DeleteBroker(t.Context(), "main"); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("to remove the main broker: %v", err)
	}
	if err := f.rome.People.DeleteBroker(t.Context(), "north"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("to remove one that is not there: %v", err)
	}
	if all := must(f.rome.People.Brokers(t.Context()))(t); len(all) != 1 || all[0].ID != "main" {
		t.Errorf("%+v", all)
	}
}

// A request at a broker that the cluster has not joined is Rejected, and made once it has joined.
func TestARequestBeforeItsBroker(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	north, err := f.StartOther("north")
	if err != nil {
		t.Fatal(err)
	}
	s := f.buysAt(f.rome, "north", "early", 1)
	if s.State != api.Rejected || !strings.Contains(s.Message, "bourse brokers add north --join TOKEN") {
		t.Errorf("asked at a broker that it has not joined: %+v", s)
	}
	f.joins(north, f.rome, f.milan)
	f.until("the request is bound through north", func() bool {
		s = must(f.rome.People.Request(t.Context(), "default", "early"))(t).Payload.Status
		return s.State == api.Reserved
	})
	if _, err := north.Operator.Reservation(t.Context(), s.Reservation); err != nil {
		t.Errorf("north does not know the reservation: %v", err)
	}
}
