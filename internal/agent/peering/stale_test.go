package peering

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// stale is a client whose cache still has a Peering that is deleted.
type stale struct {
	client.Client
	has *api.Peering
}

func (s *stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, of ...client.GetOption) error {
	if p, ok := o.(*api.Peering); ok && s.has != nil {
		s.has.DeepCopyInto(p)
		return nil
	}
	return s.Client.Get(ctx, key, o, of...)
}

// silent has no message of the handshake, and sends none.
type silent struct{}

func (silent) Newest(string, api.PeeringRole) *api.Handshake { return nil }
func (silent) Forget(string, api.PeeringRole)                {}
func (silent) Send(context.Context, string, api.PeeringRole, *api.Handshake, peering.Progress) error {
	return nil
}

// A reservation is made right after the peering of the one before was taken down, and the cache is old, because
// the API server was away: the Peering is made again, so that it is taken down once it is not used.
func TestAPeeringThatTheCacheStillHas(t *testing.T) {
	ctx := t.Context()
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: kinds()}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	cache, x := &stale{Client: c}, exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	trigger := &kubeobject.Trigger{}
	p := New(Options{Client: cache, Namespace: "default", Market: x, Messages: silent{}, Trigger: trigger,
		Lending: &slow{got: map[string]bool{"rome": true}},
		Peers: peers.New(peers.Options{Client: c, Namespace: "default", Events: events.NewFakeRecorder(100),
			Trigger: trigger, StateChanged: func(string, api.PeeringRole) {}})})
	key := client.ObjectKey{Namespace: "default", Name: api.PeeringName("rome", api.RoleConsumer)}
	look := func() {
		t.Helper()
		if _, err := p.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	object := &api.Peering{Spec: api.PeeringSpec{Cluster: "rome", Role: api.RoleConsumer}}
	object.Namespace, object.Name = key.Namespace, key.Name
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	look()
	var is api.Peering
	if err := c.Get(ctx, key, &is); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("the unused Peering is there: %v", err)
	}

	cache.has = object
	d := transporttest.NewDeal(rome, milan, "r-1", "1", time.Now())
	d.Signed()
	a := rome.Assignment(*d.Shown())
	size, err := amounts.ParseRequest("resources", a.Resources)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.Do(ctx, market.Admit{Assignment: a, Size: size, Document: d.Shown().Payload.Assignment,
		Acceptance: "signed", Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Follow(ctx, out.Reservation); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if err := c.Get(ctx, key, &is); err != nil || is.UID == object.UID || is.Status.State != api.PeeringOpen {
		t.Fatalf("the Peering is %+v, %v", is, err)
	}
	made := is.UID
	cache.has = nil
	look()
	if err := c.Get(ctx, key, &is); err != nil || is.UID != made {
		t.Errorf("the Peering is %+v, %v", is, err)
	}
}
