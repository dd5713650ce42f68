package localapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/catalog"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// agent is what the rest of the agent does for users, as far as these tests need it.
type agent struct {
	Gate
	Doctor
	key      *clusterkey.Key
	disowned []string
	volumes  *api.Volumes // at stake
}

func (a *agent) Key() *clusterkey.Key                                          { return a.key }
func (a *agent) URL() string                                                   { return "https://broker" }
func (a *agent) Rotate(_ context.Context, from string) (string, error)         { return "after " + from, nil }
func (a *agent) CheckAccept(string) error                                      { return nil }
func (a *agent) PublishAgain(string)                                           {}
func (a *agent) CheckRequest(api.Request) error                                { return nil }
func (a *agent) CheckOffload(context.Context, string, *api.Offload) error      { return nil }
func (a *agent) RetryMain()                                                    {}
func (a *agent) MainState() session.State                                      { return session.State{Connected: true} }
func (a *agent) List(context.Context) ([]api.Envelope[api.KnownBroker], error) { return nil, nil }
func (a *agent) Check(string, api.BrokerSpec) error                            { return nil }

func (a *agent) FindStickTo(context.Context, *api.ResourceRequest) ([]string, error) {
	return []string{"milan"}, nil
}

func (a *agent) FindVolumes(context.Context, *api.ResourceRequest) (*api.Volumes, error) {
	return a.volumes, nil
}

func (a *agent) EndUnknown(_ context.Context, id string) error {
	a.disowned = append(a.disowned, id)
	return nil
}

func (a *agent) PlanPool(context.Context, *api.VirtualNodePool) (api.VirtualNodePoolStatus, error) {
	return api.VirtualNodePoolStatus{}, nil
}

func newCluster(t *testing.T) (*Cluster, *agent) {
	t.Helper()
	var types []kubeapi.Type
	for kind, resource := range map[string]string{"ResourceRequest": "resourcerequests",
		"Offer": "offers", "Peer": "peers", "Broker": "brokers", "VirtualNodePool": "virtualnodepools"} {
		types = append(types, kubeapi.Type{GroupVersion: api.GroupVersion,
			Kind: kind, Resource: resource, Namespaced: kind != "VirtualNodePool", Status: true})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: types}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{key: transporttest.NewParty(t, "rome").Key}
	return NewCluster(ClusterOptions{
		Client: c, Cluster: "rome", Namespace: "default", Ledger: exchangetest.Open(t,
			nil, exchange.Options{Self: "rome"}), Member: a,
		Sharing: func() *api.Sharing { return nil }, Gate: a, Requests: a, Brokers: a, Doctor: a,
	}), a
}

// A request is an object that a user makes, confirms, and releases by the ID of its reservation.
func TestRequests(t *testing.T) {
	c, a := newCluster(t)
	ctx := t.Context()
	made, err := c.MakeRequest(ctx, api.RequestCreate{Name: "r", Request: transporttest.Request("2")})
	if err != nil || made.ID != "default/r" {
		t.Fatalf("it made %+v, %v", made, err)
	}
	if _, err := c.ConfirmRequest(ctx, "default", "r"); err != nil {
		t.Error(err)
	}
	if _, err := c.Request(ctx, "default", "other"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("one that is not there: %v", err)
	}
	stored, err := c.getRequest(ctx, "default", "r")
	if err != nil {
		t.Fatal(err)
	}
	size, err := amounts.ParseRequest("", transporttest.CPU("2"))
	if err != nil {
		t.Fatal(err)
	}
	until := market.At(time.Now().Add(time.Hour))
	note := market.Note{Reservation: &market.Reservation{
		ID: "r-1", State: api.Held, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size, Generation: 1, HeldUntil: until, Until: until,
		Object: &market.Object{Namespace: "default", Name: "r", UID: string(stored.UID)},
	}}
	if _, err := c.o.Ledger.Do(ctx, note); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ChangeReservation(ctx, "r-1",
		api.ReservationChange{Resources: transporttest.CPU("4")}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("a change before it is bound: %v", err)
	}
	if _, err := c.ChangeReservation(ctx, "r-2", api.ReservationChange{}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("a change of one that is not there: %v", err)
	}
	a.volumes = &api.Volumes{Digest: "d-1", Count: 30, Claims: []string{"db/data"}}
	for _, word := range []string{"", "d-0"} {
		err := c.ReleaseReservation(ctx, "r-1", api.Release{VolumesDie: word})
		refusal, _ := errors.AsType[*api.Error](err)
		if refusal == nil || refusal.Code != api.CodeVolumesAtStake ||
			refusal.Volumes.Digest != "d-1" || !strings.Contains(refusal.Error(), "30 volumes (db/data and 29 more)") ||
			!strings.Contains(refusal.Remedy, "--volumes-die d-1") {
			t.Errorf("release with the word %q: %v", word, err)
		}
	}
	if err := c.giveUp(ctx, stored, a.volumes, "d-1", "reservation r-1", ""); err != nil || stored.Annotations[api.VolumesMayDie] != "d-1" {
		t.Errorf("%+v, %v", stored.Annotations, err)
	}
	a.volumes = nil
	for _, id := range []string{"r-1", "r-1", "r-2"} {
		if err := c.ReleaseReservation(ctx, id, api.Release{}); err != nil {
			t.Errorf("release of %s: %v", id, err)
		}
	}
	if all, err := c.Requests(ctx); err != nil || len(all) != 0 || len(a.disowned) != 1 || a.disowned[0] != "r-2" {
		t.Errorf("after the release: %+v, %v, disowned %q", all, err, a.disowned)
	}
}

// What an admin says of a cluster, in one call, leaves what they said in another.
func TestPeers(t *testing.T) {
	c, a := newCluster(t)
	ctx := t.Context()
	key := a.key.Public().Fingerprint().String()
	if _, err := c.Trust(ctx, "milan", api.PeerSpec{Fingerprint: key}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Suspend(ctx, "milan", api.Suspension{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	known, err := c.Peers(ctx)
	if err != nil || len(known) != 1 || known[0].Payload.Spec.Fingerprint != key || !known[0].Payload.Spec.Suspend {
		t.Errorf("known are %+v, %v", known, err)
	}
	if resumed, err := c.Resume(ctx, "milan"); err != nil || resumed.Payload.Spec.Suspend ||
		resumed.Payload.Spec.SuspendReason != "" {
		t.Errorf("after it is resumed: %+v, %v", resumed, err)
	}
	if _, err := c.Trust(ctx, "milan", api.PeerSpec{Fingerprint: "x"}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a fingerprint that is none: %v", err)
	}
	if _, err := c.Suspend(ctx, "Mi lan", api.Suspension{}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a name that is none: %v", err)
	}
}

// A broker is added with a token, changed without one, and removed. The main one can only be disabled.
func TestBrokers(t *testing.T) {
	c, _ := newCluster(t)
	ctx := t.Context()
	if _, err := c.PutBroker(ctx, "north", api.BrokerSpec{}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("without a token: %v", err)
	}
	if b, err := c.PutBroker(ctx, "north", api.BrokerSpec{Join: "token"}); err != nil || b.Payload.Spec.Join != "" {
		t.Errorf("with a token: %+v, %v", b, err)
	}
	if b, err := c.PutBroker(ctx, "north", api.BrokerSpec{Disabled: true}); err != nil || !b.Payload.Spec.Disabled {
		t.Errorf("disabled: %+v, %v", b, err)
	}
	var stored api.Broker
	if err := c.o.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "north"}, &stored); err != nil ||
		stored.Spec.Join != "token" {
		t.Errorf("its token is %q, %v", stored.Spec.Join, err)
	}
	if err := c.DeleteBroker(ctx, api.MainBroker); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("the main one: %v", err)
	}
	if err := c.DeleteBroker(ctx, "north"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteBroker(ctx, "north"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("again: %v", err)
	}
}

func TestOffers(t *testing.T) {
	c, _ := newCluster(t)
	ctx := t.Context()
	if _, err := c.PutOffer(ctx, "web", transporttest.WebOffer("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutOffer(ctx, "web", api.OfferSpec{}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("an offer of nothing: %v", err)
	}
	if all, err := c.Offers(ctx); err != nil || len(all) != 1 || all[0].ID != "web" {
		t.Errorf("offers are %+v, %v", all, err)
	}
	if err := c.DeleteOffer(ctx, "web"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteOffer(ctx, "web"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("again: %v", err)
	}
}

func TestStatus(t *testing.T) {
	c, a := newCluster(t)
	s, err := c.Status(t.Context())
	if err != nil || s.Cluster != "rome" || !s.Connected || s.Broker != "https://broker" ||
		s.Fingerprint != a.key.Public().Fingerprint().String() {
		t.Errorf("it is %+v, %v", s, err)
	}
	if rotated, err := c.RotateKey(t.Context(), api.KeyRotation{From: "x"}); err != nil ||
		rotated.Fingerprint != "after x" {
		t.Errorf("rotated to %+v, %v", rotated, err)
	}
}

// oneOffer is the connector of a seller.
type oneOffer struct{}

func (oneOffer) Catalog(_ context.Context, _ api.CatalogQuery, added bool) []api.Envelope[api.Listing] {
	if added {
		return nil
	}
	return []api.Envelope[api.Listing]{{ID: "milan/web", Payload: api.Listing{Seller: "milan", Name: "web"}}}
}

// While no broker answers, the connectors of sellers show their offers.
func TestTheCatalogWithoutABroker(t *testing.T) {
	open := &session.Sessions{}
	main := session.New(session.Options{Cluster: "rome", Broker: &transporttest.Broker{}})
	main.Connection().Record(transporttest.Away)
	open.Add(main)
	b := Brokers{Clock: clock.RealClock{},
		Relay: session.Relay{Broker: main.Broker, Sessions: open}, Connectors: oneOffer{},
		Copy: catalog.New(catalog.Options{Cluster: "rome", Journal: memorytest.New()}),
	}
	if found, err := b.Catalog(t.Context(), api.CatalogQuery{}); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	if offer, err := b.Offer(t.Context(), "milan", "web"); err != nil || offer.Payload.Name != "web" {
		t.Errorf("one offer: %+v, %v", offer, err)
	}
	if _, err := b.Offer(t.Context(), "milan", "other"); err == nil {
		t.Error("an offer that is not there is found")
	}
}
