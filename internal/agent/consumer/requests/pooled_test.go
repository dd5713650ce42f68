package requests_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A request takes a provider that serves a VirtualNodePool, too, and passes over one whose capacity this cluster lends
// on, until the pool's request there is over. The requests of the pool do not.
func TestProvidersOfPools(t *testing.T) {
	for _, c := range []struct {
		label  string
		relend bool
		state  api.State // of the pool's request
		want   string
	}{
		{"", false, "", "milan"}, {"", true, "", "oslo"}, {"", true, api.Active, "oslo"},
		{"", true, api.Released, "milan"}, {"burst", true, "", "milan"},
	} {
		d := newDesk(t)
		ofPool := d.createOfPool(c.relend)
		ofPool.Status.State = c.state
		if err := d.Status().Update(t.Context(), ofPool); err != nil {
			t.Fatal(err)
		}
		d.create(func(o *api.ResourceRequest) {
			if c.label != "" {
				o.Labels = map[string]string{api.VirtualNodePoolLabel: c.label}
			}
		})
		deal := d.deal()
		d.offers(deal.Shown)
		d.takes(deal)
		d.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
			if r.Reason != api.ReasonInUse {
				t.Errorf("%+v", r)
			}
			return *deal.Moved(transporttest.NewParty(t, "oslo")), nil
		}
		d.reconcile()
		if record := d.ours(); record.Provider != c.want || record.Assignment == "" {
			t.Errorf("of pool %q, beside one with relend %v %s: it holds %+v", c.label, c.relend, c.state, record)
		}
	}
}

// createOfPool creates the request of a VirtualNodePool that milan serves.
func (d *desk) createOfPool(relend bool) *api.ResourceRequest {
	d.t.Helper()
	o := &api.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "burst-x",
			Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}},
		Spec: api.ResourceRequestSpec{Request: transporttest.Request("2")},
	}
	o.Spec.Target, o.Spec.Relend = "milan", relend
	if err := d.Create(d.t.Context(), o); err != nil {
		d.t.Fatal(err)
	}
	return o
}

// A preview knows the providers that a request would pass over, and why.
func TestFindRefused(t *testing.T) {
	d := newDesk(t)
	d.Offloading = fullAtOne{}
	ofPool := d.createOfPool(true)
	for provider, namespaces := range map[string]int32{"oslo": 1, "paris": 2} {
		pin := market.Pin{Cluster: provider, Key: "k-" + provider, MaxNamespaces: namespaces}
		if _, err := d.borrower.Market.Do(t.Context(), pin); err != nil {
			t.Fatal(err)
		}
		note := market.Note{Reservation: &market.Reservation{ID: "r-" + provider, State: api.Active, Consumer: "rome",
			Provider: provider, Pool: api.GeneralPool, Generation: 1, Until: market.At(time.Now().Add(time.Hour))}}
		if _, err := d.borrower.Market.Do(t.Context(), note); err != nil {
			t.Fatal(err)
		}
	}
	refused, err := d.FindRefused(t.Context(), &api.ResourceRequest{})
	if err != nil || len(refused) != 2 || api.CodeOf(refused["milan"]) != api.CodeInUse ||
		api.CodeOf(refused["oslo"]) != api.CodeNamespacesFull {
		t.Errorf("it refuses %v, %v", refused, err)
	}
	if refused, err = d.FindRefused(t.Context(), ofPool); err != nil || refused["milan"] != nil {
		t.Errorf("the pool's own request is refused %v, %v", refused, err)
	}
}

// A preview knows what a provider's card refuses, and pins no key.
func TestCheckCard(t *testing.T) {
	d := newDesk(t)
	oslo, unreachable := transporttest.NewParty(t, "oslo"), api.Errorf(api.CodeUnreachable, "no way to oslo")
	d.borrower.Reach = func(context.Context, *api.Card, api.Request) error { return unreachable }
	object := &api.ResourceRequest{}
	if refused, err := d.CheckCard(t.Context(), object, "oslo", oslo.Card(api.Properties{})); err != nil ||
		api.CodeOf(refused) != api.CodeUnreachable {
		t.Errorf("unreachable: %v, %v", refused, err)
	}
	d.borrower.Reach = nil
	if refused, err := d.CheckCard(t.Context(), object, "oslo", oslo.Card(api.Properties{})); err != nil || refused != nil {
		t.Errorf("usable: %v, %v", refused, err)
	}
	d.borrower.Trust.Pinned = func() bool { return true }
	if refused, err := d.CheckCard(t.Context(), object, "oslo", oslo.Card(api.Properties{})); err != nil ||
		api.CodeOf(refused) != api.CodeKeyUnconfirmed {
		t.Errorf("not confirmed: %v, %v", refused, err)
	}
	if _, err := d.CheckCard(t.Context(), object, "paris", oslo.Card(api.Properties{})); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("the card of another: %v", err)
	}
	if err := d.borrower.Market.Read(t.Context(), func(s *market.State) {
		if len(s.Members()) > 0 {
			t.Errorf("it pinned %+v", s.Members())
		}
	}); err != nil {
		t.Error(err)
	}
}

// full says that a provider maps no more namespaces.
type full string

func (full) Offload(context.Context) error { return nil }

func (full) Unoffloads(context.Context, *market.Reservation, market.Time) ([]string, error) {
	return nil, nil
}

func (f full) CheckNamespaces(_ context.Context, _ *api.ResourceRequest, provider *api.Card) error {
	if provider.Cluster == string(f) {
		return api.Errorf(api.CodeNamespacesFull, "%s is full", provider.Cluster)
	}
	return nil
}

// fullAtOne says that a provider maps no more namespaces if its card allows one.
type fullAtOne struct{ full }

func (fullAtOne) CheckNamespaces(ctx context.Context, o *api.ResourceRequest, provider *api.Card) error {
	if provider.MaxNamespaces != 1 {
		return nil
	}
	return full(provider.Cluster).CheckNamespaces(ctx, o, provider)
}

// A request passes over a provider that maps no more namespaces, before anything is signed.
func TestPassesOverAProviderFullOfNamespaces(t *testing.T) {
	d := newDesk(t)
	d.Offloading = full("milan")
	d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	d.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
		if r.Reason != api.ReasonNamespacesFull {
			t.Errorf("%+v", r)
		}
		return *deal.Moved(transporttest.NewParty(t, "oslo")), nil
	}
	d.reconcile()
	if record := d.ours(); record.Provider != "oslo" || record.Assignment == "" {
		t.Errorf("it holds %+v", record)
	}
}
