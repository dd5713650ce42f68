package requests_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A request passes over a provider that serves a VirtualNodePool. The requests of the pool do not.
func TestPassesOverTheProvidersOfPools(t *testing.T) {
	for _, c := range []struct {
		label, want string
	}{{"", "oslo"}, {"burst", "milan"}} {
		d := newDesk(t)
		ofPool := &api.ResourceRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "burst-x", Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}},
			Spec:       api.ResourceRequestSpec{Request: transporttest.Request("2")},
		}
		ofPool.Spec.Target = "milan"
		if err := d.Create(t.Context(), ofPool); err != nil {
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
		if ours := d.ours(); ours.Provider != c.want || ours.Assignment == "" {
			t.Errorf("of pool %q: it holds %+v", c.label, ours)
		}
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
	if ours := d.ours(); ours.Provider != "oslo" || ours.Assignment == "" {
		t.Errorf("it holds %+v", ours)
	}
}
