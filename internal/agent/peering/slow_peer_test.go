package peering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// slow is a relay through which one peer never gets a message, and the side of peerings that open
// once the peer has one.
type slow struct {
	never   string
	waiting chan struct{} // closed when a message to never waits

	mu    sync.Mutex
	once  sync.Once
	ended bool // a message to never no longer waits
	got   map[string]bool
}

func (s *slow) SendHandshake(ctx context.Context, cluster, _ string) error {
	if cluster != s.never {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got[cluster] = true
		return nil
	}
	s.once.Do(func() { close(s.waiting) })
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return ctx.Err()
}

func (s *slow) Reservation(context.Context, string) (transport.Reservation, error) {
	return transport.Reservation{}, transporttest.Away
}

func (s *slow) Open(_ context.Context, peer string, _ *api.Handshake) (peering.Progress, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got[peer] {
		return peering.Progress{Open: true}, nil
	}
	return peering.Progress{Step: peering.StepTenant, Session: peer,
		Say: &api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte("n")}}}, nil
}

func (s *slow) Connect(context.Context, string, *api.Handshake, *peering.Progress) (*network.State, error) {
	return nil, nil
}

func (s *slow) Suspension(context.Context, string) (*metav1.Condition, error) { return nil, nil }
func (s *slow) Serve(context.Context, string) (string, error)                 { return "", nil }
func (s *slow) Carried(context.Context, string) (bool, error)                 { return false, nil }
func (s *slow) Disconnect(context.Context, string) (bool, error)              { return true, nil }
func (s *slow) Close(context.Context, string, bool) (bool, error)             { return true, nil }
func (s *slow) Restrict(context.Context, string, api.MemberState) error       { return nil }
func (s *slow) Effect(api.MemberState) string                                 { return "" }
func (s *slow) Remains(context.Context, string) (string, error)               { return "", nil }

// kinds returns what the controller watches, besides the built-in kinds.
func kinds() (types []kubeapi.Type) {
	for _, t := range []struct {
		of         schema.GroupVersion
		kind, name string
	}{
		{api.GroupVersion, "Peer", "peers"}, {api.GroupVersion, "Peering", "peerings"},
		{authv1beta1.GroupVersion, authv1beta1.TenantKind, "tenants"}, {authv1beta1.GroupVersion,
			authv1beta1.IdentityKind, "identities"},
		{authv1beta1.GroupVersion, authv1beta1.ResourceSliceKind, "resourceslices"},
		{offv1beta1.SchemeGroupVersion, "VirtualNode", "virtualnodes"}, {offv1beta1.SchemeGroupVersion,
			"NamespaceOffloading", "namespaceoffloadings"},
		{networkingv1beta1.GroupVersion, "Configuration", "configurations"}, {networkingv1beta1.GroupVersion,
			"GatewayServer", "gatewayservers"},
		{networkingv1beta1.GroupVersion, "GatewayClient", "gatewayclients"}, {networkingv1beta1.GroupVersion,
			"PublicKey", "publickeies"},
		{networkingv1beta1.GroupVersion, "Connection", "connections"},
	} {
		types = append(types, kubeapi.Type{GroupVersion: t.of, Kind: t.kind,
			Resource: t.name, Namespaced: true, Status: true})
	}
	return append(types, kubeapi.Type{GroupVersion: api.GroupVersion, Kind: "SharingPolicy",
		Resource: "sharingpolicies", Status: true})
}

// Of 50 consumers one never gets a message. The peerings with the other 49 open while it still waits.
func TestASlowPeerHoldsUpNobody(t *testing.T) {
	const count = 50
	m, err := ctrl.NewManager(kubeapi.New(kubeapi.Options{Types: kinds()}).Config(), ctrl.Options{
		Scheme: scheme.New(), Metrics: server.Options{BindAddress: "0"}, Controller: scheme.Controllers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ledger, milan := exchangetest.Open(t, nil, exchange.Options{Self: "milan"}), transporttest.NewParty(t, "milan")
	s := &slow{never: "consumer-7", waiting: make(chan struct{}), got: map[string]bool{}}
	trigger := &kubeobject.Trigger{}
	known := peers.New(peers.Options{
		Client: m.GetClient(), Namespace: "bourse", Market: ledger, Events: events.NewFakeRecorder(1000), Trigger: &kubeobject.Trigger{},
		Sharing: func() *api.Sharing { return nil }, StateChanged: func(cluster string,
			role api.PeeringRole) {
			trigger.Add("bourse", api.PeeringName(cluster, role))
		},
	})
	p := New(Options{
		Client: m.GetClient(), Namespace: "bourse", Market: ledger, Peers: known, Lending: s, Borrowing: s, Trigger: trigger,
		Messages: NewMessenger(MessengerOptions{
			Clock:   clock.RealClock{},
			Cluster: "milan", Key: milan.Key, Market: ledger, Relay: s, Log: slog.New(slog.DiscardHandler), Received: func(string, api.PeeringRole) {},
		}),
		Graces: Graces{Linger: time.Hour, Abandon: time.Hour},
	})
	if err := p.Control(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if !m.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not start")
	}
	follow := func(name string) {
		t.Helper()
		if err := p.Follow(ctx, borrowedBy(t, ledger, name)); err != nil {
			t.Fatal(err)
		}
	}
	follow(s.never)
	<-s.waiting
	for i := range count {
		if name := fmt.Sprintf("consumer-%d", i); name != s.never {
			follow(name)
			known.RecordState(api.Membership{Cluster: name, State: api.MemberActive})
		}
	}
	open := func() (open int) {
		var list api.PeeringList
		if err := m.GetAPIReader().List(ctx, &list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Items {
			if one.Status.State == api.PeeringOpen {
				open++
			}
		}
		return open
	}
	for patience := time.Now().Add(actWithin / 2); open() < count-1; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(patience) {
			t.Fatalf("%d of %d peerings are open", open(), count-1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.got[s.never] {
		t.Error("the slow peer does not wait any more")
	}
}

// borrowedBy pins a consumer's key in the Ledger of milan, and reserves 1 CPU for it.
func borrowedBy(t *testing.T, ledger *exchange.Exchange, consumer string) *market.Reservation {
	t.Helper()
	key := transporttest.NewParty(t, consumer).Key.Public().String()
	if _, err := ledger.Do(t.Context(), market.Pin{Cluster: consumer, Key: key}); err != nil {
		t.Fatal(err)
	}
	now := ledger.Now().Go()
	out, err := ledger.Do(t.Context(), market.Admit{
		Adopt: true, Document: "assignment", Acceptance: "acceptance", Size: amounts.List{{Resource: "cpu",
			Value: 1000}}, BindsUntil: market.At(now.Add(time.Minute)),
		Assignment: api.Assignment{
			Reservation: "of-" +
				consumer, Consumer: consumer, Provider: "milan", Pool: api.GeneralPool, Generation: 1, Until: transporttest.Seconds(now.Add(time.Hour)),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Reservation
}
