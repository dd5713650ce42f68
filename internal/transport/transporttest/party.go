package transporttest

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Party is a cluster with its key: it signs what a consumer or a provider signs.
type Party struct {
	// ID is the cluster ID.
	ID  string
	Key *clusterkey.Key
	// Rotations lead to Key, as its cards show them.
	Rotations []string

	t testing.TB
}

// NewParty makes a cluster with a new key.
func NewParty(t testing.TB, id string) *Party {
	t.Helper()
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Party{ID: id, Key: key, t: t}
}

// Rotate gives the cluster a new key, signed by the one that it has, and returns what it was before.
func (p *Party) Rotate() *Party {
	p.t.Helper()
	before := *p
	next := NewParty(p.t, p.ID).Key
	document, err := trust.Rotate(p.Key, next.Public(), p.ID, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	p.Key, p.Rotations = next, append(slices.Clip(p.Rotations), document)
	return &before
}

// Sign signs a document.
func (p *Party) Sign(kind string, payload any) string {
	p.t.Helper()
	signed, err := p.Key.Sign(kind, payload)
	if err != nil {
		p.t.Fatal(err)
	}
	return signed
}

// Card signs a card with these properties, newer than those before.
func (p *Party) Card(properties api.Properties) string {
	p.t.Helper()
	return p.Sign(api.DocumentCard, api.Card{Cluster: p.ID, Key: p.Key.Public().String(),
		Number: time.Now().UnixMicro(), Properties: properties, Rotations: p.Rotations})
}

// Assignment is what the consumer of a held reservation is to sign.
func (p *Party) Assignment(r transport.Reservation) api.Assignment {
	p.t.Helper()
	_, provider, err := trust.Open(r.Payload.ProviderCard)
	if err != nil {
		p.t.Fatalf("card of %s: %v", r.Payload.Provider, err)
	}
	t := r.Payload
	begins := metav1.Time{}
	if t.Sale != nil {
		begins = Seconds(t.Created.Time)
	}
	return api.Assignment{
		Protocol: api.Protocol, Reservation: r.ID, Issued: Seconds(t.Created.Time), Generation: t.Generation,
		Consumer: t.Consumer, ConsumerKey: p.Key.Public().Fingerprint().String(),
		Provider: t.Provider, ProviderKey: provider.Fingerprint().String(),
		Pool: t.Pool, Slice: t.Slice, Resources: t.Resources, Until: Seconds(t.Until.Time), Expires: Seconds(t.Expires().Time), Sale: t.Sale, Begins: begins,
	}
}

// Assign signs the assignment of a held reservation.
func (p *Party) Assign(r transport.Reservation) string {
	p.t.Helper()
	return p.Sign(api.DocumentAssignment, p.Assignment(r))
}

// SignOffer signs a version of an offer.
func (p *Party) SignOffer(name string, version int64, spec api.OfferSpec) string {
	p.t.Helper()
	return p.Sign(api.DocumentOffer, api.SignedOffer{Protocol: api.Protocol,
		Seller: p.ID, Name: name, Version: version, Offer: spec})
}

// WebOffer has two plans. small has units of one CPU at a price per hour: eight units, two, four or six in one
// contract, for a day at most. large has units of two CPUs.
func WebOffer(price string) api.OfferSpec {
	per := func(amount string) *api.Price {
		return &api.Price{Amount: amount, Currency: "EUR", Period: api.PeriodHour}
	}
	return api.OfferSpec{Type: "compute", Plans: []api.Plan{
		{Name: "small", Resources: CPU("1"), Price: per(price), Quantity: 8,
			Units: &api.Units{Min: 2, Max: 6, Step: 2}, MaxDuration: &metav1.Duration{Duration: 24 * time.Hour}},
		{Name: "large", Resources: CPU("2"), Price: per(price)},
	}}
}

// Acceptance is the provider's yes to a reservation whose assignment is signed.
func (p *Party) Acceptance(r transport.Reservation) api.Acceptance {
	return api.Acceptance{
		Protocol: api.Protocol, Reservation: r.ID, Generation: r.Payload.Generation,
		Consumer: r.Payload.Consumer, Provider: p.ID,
		Assignment: clusterkey.Digest(r.Payload.Assignment).String(), Expires: Seconds(time.Now().Add(time.Minute)),
	}
}

// Agree signs it.
func (p *Party) Agree(r transport.Reservation) string {
	p.t.Helper()
	return p.Sign(api.DocumentAcceptance, p.Acceptance(r))
}

// End signs the end of a reservation.
func (p *Party) End(r transport.Reservation, reason api.Reason) string {
	p.t.Helper()
	assignment := ""
	if r.Payload.Assignment != "" {
		assignment = clusterkey.Digest(r.Payload.Assignment).String()
	}
	return p.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: r.ID, Assignment: assignment, Generation: r.Payload.Generation, By: p.ID,
		Consumer: r.Payload.Consumer, Provider: r.Payload.Provider, Reason: reason,
	})
}

// Seconds is a time as documents have it: UTC, in whole seconds.
func Seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// CPU is an amount of CPUs.
func CPU(cpu string) api.Resources { return api.Resources{"cpu": resource.MustParse(cpu)} }

// Request asks for so many CPUs for an hour.
func Request(cpu string) api.Request {
	return api.Request{Resources: CPU(cpu), Duration: &metav1.Duration{Duration: time.Hour}}
}

// Measurement is an advertisement of so many CPUs, shared with everybody.
func Measurement(number int64, cpu string) api.Measurement {
	amount := CPU(cpu)
	return api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: amount, Allocatable: amount, Shared: amount}},
	}
}
