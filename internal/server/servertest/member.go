package servertest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Member is a cluster that joined, with its keys and its client.
type Member struct {
	*client.Client
	*transporttest.Party
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
	m := &Member{Party: transporttest.NewParty(f.t, name), t: f.t}
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
	next := transporttest.Measurement(m.number, cpu)
	for _, a := range accounts {
		pool := next.Pools[api.GeneralPool]
		pool.Accounts = a
		next.Pools[api.GeneralPool] = pool
	}
	return next
}
