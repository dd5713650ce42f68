package servertest

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Member is a cluster that joined, with its keys and its client.
type Member struct {
	*client.Client
	// ID is the cluster ID.
	ID  string
	Key *clusterkey.Key
	// HTTP shows the cluster's certificate.
	HTTP *http.Client

	t      testing.TB
	number int64 // of its newest advertisement
}

// Join makes a cluster a member by a token that names it, and shows its card.
func (f *Federation) Join(name string) *Member {
	f.t.Helper()
	m := f.Enter(name, f.Token(name))
	m.ShowCard(api.Properties{Region: "eu"})
	return m
}

// Token is a join token for one cluster, or with an empty name for any, which then waits for approval.
func (f *Federation) Token(name string) join.Token {
	f.t.Helper()
	made := must(f.Operator.CreateToken(context.Background(), name, 0))(f.t)
	return must(join.ParseToken(made.Token))(f.t)
}

// Enter joins with a token, and does no more.
func (f *Federation) Enter(name string, token join.Token) *Member {
	f.t.Helper()
	m := &Member{ID: name, t: f.t, Key: must(clusterkey.New(rand.Reader))(f.t)}
	tlsKey := must(tlsid.NewKey())(f.t)
	joined := must(f.Stranger().Join(context.Background(), m.Submission(token, tlsKey)))(f.t)
	certificate := must(tlsid.NewClient(tlsKey, []byte(joined.Certificate), []byte(joined.CA), time.Now))(f.t)
	m.HTTP = f.HTTP(certificate.Config())
	m.Client = client.New(f.URL, m.HTTP)
	return m
}

// Stranger is a client that knows the broker and shows no certificate.
func (f *Federation) Stranger() *client.Client { return client.New(f.URL, f.StrangerHTTP()) }

// StrangerHTTP is what carries its calls.
func (f *Federation) StrangerHTTP() *http.Client {
	return f.HTTP(tlsid.JoinConfig("127.0.0.1", must(f.Authority.Pin())(f.t), time.Now))
}

// Submission is the member's request to join with a token.
func (m *Member) Submission(token join.Token, tlsKey []byte) join.Submission {
	m.t.Helper()
	return must(join.Submit(token, m.Key, join.Request{
		Protocol: api.Protocol, Cluster: m.ID, CSR: must(tlsid.NewCSR(tlsKey))(m.t), Time: time.Now(),
	}))(m.t)
}

// ShowCard puts a newer card with these properties.
func (m *Member) ShowCard(p api.Properties) {
	m.t.Helper()
	if err := m.PutCard(context.Background(), m.ID, m.Card(p)); err != nil {
		m.t.Fatal(err)
	}
}

// Card signs a card, newer than those before.
func (m *Member) Card(p api.Properties) string {
	return m.Sign(api.DocumentCard, api.Card{Cluster: m.ID, Key: m.Key.Public().String(), Number: time.Now().UnixNano() / 1000, Properties: p})
}

// Sign signs a document.
func (m *Member) Sign(kind string, payload any) string {
	m.t.Helper()
	return must(m.Key.Sign(kind, payload))(m.t)
}

// Advertise says, whole, that the cluster shares so many CPUs with everybody, and lists what it committed.
func (m *Member) Advertise(cpu string, accounts ...map[string]api.AccountUse) {
	m.t.Helper()
	if err := m.PutAdvertisement(context.Background(), m.ID, m.Measurement(cpu, accounts...)); err != nil {
		m.t.Fatal(err)
	}
}

// Measurement is the next advertisement of so many CPUs.
func (m *Member) Measurement(cpu string, accounts ...map[string]api.AccountUse) api.Measurement {
	m.number++
	amount := CPU(cpu)
	pool := api.Pool{Capacity: amount, Allocatable: amount, Shared: amount}
	for _, a := range accounts {
		pool.Accounts = a
	}
	return api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: m.number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: pool},
	}
}

// CPU is an amount of CPUs.
func CPU(cpu string) api.Resources { return api.Resources{"cpu": resource.MustParse(cpu)} }

// Request asks for so many CPUs for an hour.
func Request(cpu string) api.Request {
	return api.Request{Resources: CPU(cpu), Duration: &metav1.Duration{Duration: time.Hour}}
}

// Assignment is what the consumer of a held reservation is to sign.
func (m *Member) Assignment(r client.Reservation) api.Assignment {
	m.t.Helper()
	_, provider, err := trust.Open(r.Payload.ProviderCard)
	if err != nil {
		m.t.Fatalf("card of %s: %v", r.Payload.Provider, err)
	}
	p := r.Payload
	return api.Assignment{
		Protocol: api.Protocol, Reservation: r.ID, Generation: p.Generation,
		Consumer: p.Consumer, ConsumerKey: m.Key.Public().Fingerprint().String(),
		Provider: p.Provider, ProviderKey: provider.Fingerprint().String(),
		Pool: p.Pool, Slice: p.Slice, Resources: p.Resources, Until: utc(p.Until), Expires: utc(p.HeldUntil),
	}
}

// Assign signs the assignment of a held reservation.
func (m *Member) Assign(r client.Reservation) string {
	m.t.Helper()
	return m.Sign(api.DocumentAssignment, m.Assignment(r))
}

// Acceptance is the provider's yes to a reservation whose assignment is signed.
func (m *Member) Acceptance(r client.Reservation) api.Acceptance {
	return api.Acceptance{
		Protocol: api.Protocol, Reservation: r.ID, Generation: r.Payload.Generation,
		Consumer: r.Payload.Consumer, Provider: m.ID,
		Assignment: clusterkey.Digest(r.Payload.Assignment).String(), Expires: utc(metav1.NewTime(time.Now().Add(time.Minute))),
	}
}

// Agree signs it.
func (m *Member) Agree(r client.Reservation) string {
	return m.Sign(api.DocumentAcceptance, m.Acceptance(r))
}

// End signs the end of a reservation.
func (m *Member) End(r client.Reservation, reason api.Reason) string {
	return m.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: r.ID, Generation: r.Payload.Generation, By: m.ID,
		Consumer: r.Payload.Consumer, Provider: r.Payload.Provider, Reason: reason,
	})
}

func utc(t metav1.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
