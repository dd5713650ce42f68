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
	f      *Federation
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
	m := &Member{Party: transporttest.NewParty(f.t, name), t: f.t, f: f}
	tlsKey := must(tlsid.NewKey())(f.t)
	m.show(tlsKey, must(f.Stranger().Join(context.Background(), m.Submission(token, tlsKey)))(f.t))
	return m
}

// show makes the member's calls show a certificate.
func (m *Member) show(tlsKey []byte, joined api.Joined) {
	m.t.Helper()
	certificate := must(tlsid.NewClient(tlsKey, []byte(joined.Certificate), []byte(joined.CA), time.Now))(m.t)
	m.HTTP = m.f.HTTP(certificate.Config())
	m.Client = client.New(m.f.URL, m.HTTP)
}

// Renew renews the member's certificate, as its agent does, and shows the new one from then on.
func (m *Member) Renew() error {
	m.t.Helper()
	tlsKey := must(tlsid.NewKey())(m.t)
	joined, err := m.f.Stranger().Renew(context.Background(), m.Renewal(tlsKey))
	if err == nil {
		m.show(tlsKey, joined)
	}
	return err
}

// Renewal is the member's request to renew its certificate for a TLS key. change, if any, changes
// it before it is signed.
func (m *Member) Renewal(tlsKey []byte, change ...func(*join.RenewalRequest)) join.Renewal {
	m.t.Helper()
	request := join.RenewalRequest{Protocol: api.Protocol, Federation: m.f.Authority.Federation(),
		Cluster: m.ID, CSR: must(tlsid.NewCSR(tlsKey))(m.t), Time: m.f.Exchange.Now().Go()}
	for _, f := range change {
		f(&request)
	}
	return must(join.Renew(m.Key, m.Rotations, request))(m.t)
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
