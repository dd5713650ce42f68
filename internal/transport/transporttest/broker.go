package transporttest

import (
	"context"
	"fmt"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Broker is a transport.Broker whose answers a test sets. A call without an answer fails as if the broker were away.
// It records the calls.
type Broker struct {
	OnReservation   func() (transport.Reservation, error)
	OnReserve       func(key string, r api.Request) (transport.Reservation, error)
	OnConfirm       func(id, assignment string) (transport.Reservation, error)
	OnAccept        func(id, acceptance string) (transport.Reservation, error)
	OnRefuse        func(id string, r api.Refusal) (transport.Reservation, error)
	OnRelease       func(id, end string) (transport.Reservation, error)
	OnProgress      func(id string, state api.State) (transport.Reservation, error)
	OnSendHandshake func(cluster, document string) error
	OnCluster       func(id string) (api.Envelope[api.Cluster], error)
	// OnPutCard takes cards, OnAdvertise advertisements; nil takes all.
	OnPutCard   func(signed string) error
	OnAdvertise func(m api.Measurement) error

	mu    sync.Mutex
	asked []string
}

var _ transport.Broker = (*Broker)(nil)

// Away is what a call to a broker that is away comes to.
var Away = api.Errorf(api.CodeUnavailable, "the broker is away")

// Asked returns what it was asked since the last time: "Accept r-1".
func (b *Broker) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asked
	b.asked = nil
	return asked
}

func (b *Broker) hear(verb, about string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, fmt.Sprintf("%s %s", verb, about))
}

func say[A, R any](on func(string, A) (R, error), about string, a A) (R, error) {
	if on == nil {
		var none R
		return none, Away
	}
	return on(about, a)
}

// PutCard takes cards.
func (b *Broker) PutCard(_ context.Context, signed string) error {
	if b.OnPutCard == nil {
		return nil
	}
	return b.OnPutCard(signed)
}

// Advertise takes advertisements.
func (b *Broker) Advertise(_ context.Context, m api.Measurement) error {
	b.hear("Advertise", fmt.Sprintf("%d.%d", m.Sequence.Incarnation, m.Sequence.Number))
	if b.OnAdvertise == nil {
		return nil
	}
	return b.OnAdvertise(m)
}

// Clusters and ClustersAfter are not scripted.
func (b *Broker) Clusters(context.Context) ([]api.Envelope[api.Cluster], error) { return nil, Away }
func (b *Broker) ClustersAfter(context.Context, string, int) ([]api.Envelope[api.Cluster], string, error) {
	return nil, "", Away
}

// Cluster says what the test says.
func (b *Broker) Cluster(_ context.Context, id string) (api.Envelope[api.Cluster], error) {
	if b.OnCluster == nil {
		return api.Envelope[api.Cluster]{}, Away
	}
	return b.OnCluster(id)
}

// Catalog, Offer, Publish and Withdraw are not scripted.
func (b *Broker) Catalog(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	return nil, Away
}

// Offer implements transport.Broker.
func (b *Broker) Offer(context.Context, string, string) (api.Envelope[api.Listing], error) {
	return api.Envelope[api.Listing]{}, Away
}

// Publish implements transport.Broker.
func (b *Broker) Publish(_ context.Context, name, _ string) error {
	b.hear("Publish", name)
	return Away
}

// Withdraw implements transport.Broker.
func (b *Broker) Withdraw(_ context.Context, name string) error {
	b.hear("Withdraw", name)
	return Away
}

// Adopt is not scripted, but heard.
func (b *Broker) Adopt(_ context.Context, id string, _ api.Agreement) (transport.Reservation, error) {
	b.hear("Adopt", id)
	return transport.Reservation{}, Away
}

// Evaluate is not scripted.
func (b *Broker) Evaluate(context.Context, api.Request) (api.Evaluation, error) {
	return api.Evaluation{}, Away
}

// Fit is not scripted.
func (b *Broker) Fit(context.Context, api.EvaluationCreate) (api.Evaluation, error) {
	return api.Evaluation{}, Away
}

// Reserve says what the test says, as do those that follow.
func (b *Broker) Reserve(_ context.Context, key string, r api.Request) (transport.Reservation, error) {
	b.hear("Reserve", key)
	return say(b.OnReserve, key, r)
}

// Reservation says what the test says, without being counted.
func (b *Broker) Reservation(context.Context, string) (transport.Reservation, error) {
	if b.OnReservation == nil {
		return transport.Reservation{}, Away
	}
	return b.OnReservation()
}

// Reservations is not scripted.
func (b *Broker) Reservations(context.Context) ([]transport.Reservation, error) { return nil, Away }

// Confirm implements transport.Broker.
func (b *Broker) Confirm(_ context.Context, id, assignment string) (transport.Reservation, error) {
	b.hear("Confirm", id)
	return say(b.OnConfirm, id, assignment)
}

// Accept implements transport.Broker.
func (b *Broker) Accept(_ context.Context, id, acceptance string) (transport.Reservation, error) {
	b.hear("Accept", id)
	return say(b.OnAccept, id, acceptance)
}

// Refuse implements transport.Broker.
func (b *Broker) Refuse(_ context.Context, id string, r api.Refusal) (transport.Reservation, error) {
	b.hear("Refuse", id+" "+string(r.Reason))
	return say(b.OnRefuse, id, r)
}

// Release implements transport.Broker.
func (b *Broker) Release(_ context.Context, id, end string) (transport.Reservation, error) {
	b.hear("Release", id)
	return say(b.OnRelease, id, end)
}

// Progress implements transport.Broker.
func (b *Broker) Progress(_ context.Context, id string, state api.State) (transport.Reservation, error) {
	b.hear("Progress", id+" "+string(state))
	return say(b.OnProgress, id, state)
}

// SendHandshake implements transport.Broker.
func (b *Broker) SendHandshake(_ context.Context, cluster, document string) error {
	b.hear("SendHandshake", cluster)
	if b.OnSendHandshake == nil {
		return Away
	}
	return b.OnSendHandshake(cluster, document)
}

// Watch says nothing until ctx ends.
func (b *Broker) Watch(ctx context.Context, _ string, _ func(api.WatchEvent) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// WatchCatalog says nothing until ctx ends.
func (b *Broker) WatchCatalog(ctx context.Context, token, _ string, handle func(api.WatchEvent) error) error {
	return b.Watch(ctx, token, handle)
}
