package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// forWhom says of every route whom it serves; what is not here fails the test.
var forWhom = map[string]string{
	"POST /join": "nobody", "POST /renew": "nobody",
	"GET /clusters": "member operator", "GET /clusters/{cluster}": "member operator",
	"PUT /clusters/{cluster}/card": "member", "PUT /clusters/{cluster}/advertisement": "member", "PATCH /clusters/{cluster}/advertisement": "member",
	"PUT /clusters/{cluster}/handshake": "member", "POST /evaluations": "member", "POST /reservations": "member", "GET /watch": "member",
	"GET /reservations": "member operator", "GET /reservations/{id}": "member operator",
	"POST /reservations/{id}/confirm": "member", "POST /reservations/{id}/accept": "member", "POST /reservations/{id}/refuse": "member",
	"POST /reservations/{id}/release": "member", "POST /reservations/{id}/adopt": "member", "POST /reservations/{id}/progress": "member",
	"GET /catalog": "member operator", "GET /catalog/{cluster}/{name}": "member operator",
	"PUT /clusters/{cluster}/offers/{name}": "member", "DELETE /clusters/{cluster}/offers/{name}": "member",
	"GET /members": "operator", "POST /members/{cluster}/{step}": "operator", "PUT /members/{cluster}/caps": "operator", "POST /members/{cluster}/certificate": "operator", "POST /operators": "socket", "GET /tokens": "operator", "POST /tokens": "operator", "DELETE /tokens/{id}": "operator", "GET /broker": "operator",
}

// bodies that each route accepts, so that only who calls is wrong.
var bodies = map[string]string{
	"POST /renew": `{"csr":"AAAA"}`, "PUT /clusters/{cluster}/card": `{"document":"x"}`, "PUT /clusters/{cluster}/handshake": `{"document":"x"}`,
	"PUT /clusters/{cluster}/advertisement":   `{"sequence":{"incarnation":1,"number":99}}`,
	"PATCH /clusters/{cluster}/advertisement": `{"base":{"incarnation":1,"number":1},"sequence":{"incarnation":1,"number":99}}`,
	"POST /evaluations":                       `{"request":{"resources":{"cpu":"1"}}}`, "POST /reservations": `{"request":{"resources":{"cpu":"1"}}}`,
	"POST /reservations/{id}/confirm": `{"document":"x"}`, "POST /reservations/{id}/accept": `{"document":"x"}`,
	"POST /reservations/{id}/refuse":  `{"generation":1,"reason":"PolicyRefuses","advertisement":{"sequence":{"incarnation":1,"number":99}}}`,
	"POST /reservations/{id}/release": `{"document":"x"}`, "POST /reservations/{id}/progress": `{"state":"Active"}`,
	"POST /reservations/{id}/adopt": `{"assignment":"x","acceptance":"x"}`,
	"POST /tokens":                  `{}`, "PUT /clusters/{cluster}/offers/{name}": `{"document":"x"}`,
	"PUT /members/{cluster}/caps": `{"reservations":1}`, "POST /members/{cluster}/certificate": `{"request":"x"}`, "POST /operators": `{}`,
}

// Every route refuses all callers without its role, even if the rest of the call is valid.
func TestHostileCallersOfEveryRoute(t *testing.T) {
	w := newFixture(t)
	var calls []call
	for _, route := range routes(t, w.Federation) {
		whom, known := forWhom[route]
		if !known {
			t.Errorf("route %s: say in forWhom whom it serves", route)
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{cluster}", "milan", "{id}", w.signed.ID,
			"{name}", "web", "{step}", "approve").Replace(path)
		for who, c := range map[string]struct {
			by   *http.Client
			want api.Code
		}{
			"nobody":   {w.nobody, api.CodeUnauthenticated},
			"pending":  {w.lima.HTTP, api.CodeNotMember},
			"member":   {w.oslo.HTTP, api.CodeForbidden},
			"operator": {w.OperatorHTTP, api.CodeForbidden},
		} {
			if strings.Contains(whom, who) || whom == "nobody" {
				continue
			}
			if who == "pending" && (whom == "operator" || whom == "socket") {
				c.want = api.CodeForbidden
			}
			calls = append(calls, call{name: route + " as " + who, by: c.by,
				method: method, path: path, body: bodies[route], want: c.want})
		}
	}
	w.refused(t, calls)
}

// routes are those of the served description of the API.
func routes(t *testing.T, f *servertest.Federation) (all []string) {
	t.Helper()
	answer, err := f.OperatorHTTP.Get(f.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var described struct{ Paths map[string]map[string]any }
	if err := json.NewDecoder(answer.Body).Decode(&described); err != nil || len(described.Paths) == 0 {
		t.Fatalf("%d paths, %v", len(described.Paths), err)
	}
	for path, methods := range described.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+strings.TrimPrefix(path, api.Prefix))
		}
	}
	return all
}

// What concerns others does not exist; who speaks for others is refused.
func TestHostileNeighbours(t *testing.T) {
	w := newFixture(t)
	oslo := w.oslo.HTTP
	of := func(id, verb string) string { return "/reservations/" + id + "/" + verb }
	var calls []call
	for what, id := range map[string]string{"that is held": w.signed.ID,
		"that is bound": w.bound.ID, "that is not": "r-aaaaaaaaaaaaaaaa"} {
		calls = append(calls,
			call{name: "read one " + what, by: oslo, method: "GET", path: "/reservations/" + id, want: api.CodeNotFound},
			call{name: "confirm one " + what, by: oslo, method: "POST",
				path: of(id, "confirm"), body: document(w.oslo.Assign(w.signed)), want: api.CodeNotFound},
			call{name: "accept one " + what, by: oslo, method: "POST",
				path: of(id, "accept"), body: document(w.oslo.Agree(w.signed)), want: api.CodeNotFound},
			call{name: "refuse one " + what, by: oslo, method: "POST", path: of(id, "refuse"), body: `{"generation":1,"reason":"PolicyRefuses"}`, want: api.CodeNotFound},
			call{name: "end one " + what, by: oslo, method: "POST", path: of(id, "release"),
				body: document(w.oslo.End(w.bound, api.ReasonReleased)), want: api.CodeNotFound},
			call{name: "free one " + what, by: oslo, method: "POST", path: of(id, "progress"), body: `{"state":"Released"}`, want: api.CodeNotFound},
		)
	}
	w.refused(t, append(calls,
		call{name: "the provider before the consumer signed", by: w.milan.HTTP,
			method: "GET", path: "/reservations/" + w.unsigned.ID, want: api.CodeNotFound},
		call{name: "a card of another", by: oslo, method: "PUT", path: "/clusters/milan/card",
			body: document(w.oslo.Card(api.Properties{})), want: api.CodeForbidden, field: "cluster"},
		call{name: "an advertisement of another", by: oslo, method: "PUT", path: "/clusters/milan/advertisement",
			body: `{"sequence":{"incarnation":9,"number":9}}`, want: api.CodeForbidden, field: "cluster"},
		call{name: "a cluster that nobody knows", by: oslo, method: "GET",
			path: "/clusters/atlantis", want: api.CodeNotFound},
		call{name: "a member that shows itself to nobody", by: oslo,
			method: "GET", path: "/clusters/rome", want: api.CodeNotFound},
		call{name: "a member that nobody knows", by: w.OperatorHTTP,
			method: "POST", path: "/members/atlantis/approve", want: api.CodeNotFound},
		call{name: "the consumer accepts for the provider", by: w.rome.HTTP, method: "POST",
			path: of(w.signed.ID, "accept"), body: document(w.rome.Agree(w.signed)), want: api.CodeConflict, field: "document"},
		call{name: "the consumer refuses for the provider", by: w.rome.HTTP, method: "POST", path: of(w.signed.ID, "refuse"), body: `{"generation":1,"reason":"PolicyRefuses"}`, want: api.CodeConflict},
		call{name: "the consumer frees what the provider holds", by: w.rome.HTTP, method: "POST", path: of(w.bound.ID, "progress"), body: `{"state":"Released"}`, want: api.CodeForbidden},
		call{name: "the provider activates", by: w.milan.HTTP, method: "POST", path: of(w.bound.ID, "progress"), body: `{"state":"Active"}`, want: api.CodeForbidden},
		call{name: "the provider frees what nobody ended", by: w.milan.HTTP, method: "POST", path: of(w.bound.ID, "progress"), body: `{"state":"Released"}`, want: api.CodeConflict},
		call{name: "the provider ends what it only holds", by: w.milan.HTTP, method: "POST", path: of(w.signed.ID, "release"),
			body: document(w.milan.End(w.signed, api.ReasonRevokedByProvider)), want: api.CodeConflict},
	))
}

// A token admits one cluster, once; nothing of a submission can be used by another.
func TestHostileJoins(t *testing.T) {
	w := newFixture(t)
	tlsKey, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	body := func(change func(*join.Submission), name string, token join.Token) string {
		m, party := *w.oslo, *w.oslo.Party // with oslo's key
		party.ID, m.Party = name, &party
		s := m.Submission(token, tlsKey)
		change(&s)
		data, _ := json.Marshal(s)
		return string(data)
	}
	same := func(*join.Submission) {}
	spent := w.Token("")
	w.Enter("paris", spent)
	calls := []call{
		{name: "a token that another spent", body: body(same, "vienna", spent), want: api.CodeTokenSpent},
		{name: "a token for another", body: body(same, "vienna", w.Token("bonn")), want: api.CodeTokenSpent},
		{name: "the name of a member with another key", body: body(same, "milan", w.Token("milan")),
			want: api.CodeKeyChanged},
		{name: "a name that is none", body: body(same, "Not A Name", w.Token("")), want: api.CodeInvalid, field: "request"},
		{name: "another secret", body: body(func(s *join.Submission) { s.Secret = "guess" }, "vienna", w.Token("")),
			want: api.CodeTokenSpent},
		{name: "another token's ID", body: body(func(s *join.Submission) { s.TokenID = spent.ID }, "vienna", w.Token("")),
			want: api.CodeInvalid, field: "request"},
		{name: "another's key", body: body(func(s *join.Submission) { s.Key = w.rome.Key.Public() }, "vienna", w.Token("")),
			want: api.CodeInvalid, field: "request"},
		{name: "a key that is none", body: `{"tokenID":"a","secret":"b","key":"c","request":"d"}`, want: api.CodeInvalid, field: "body"},
	}
	for i := range calls {
		calls[i].by, calls[i].method, calls[i].path = w.nobody, "POST", "/join"
	}
	w.refused(t, calls)
}

// A certificate of the right CA that does not name a member in its URI is nobody's.
func TestACertificateWithOnlyACommonNameIsNobodys(t *testing.T) {
	w := newFixture(t)
	ca, err := tls.LoadX509KeyPair(filepath.Join(w.CADir, "ca.crt"), filepath.Join(w.CADir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	w.refused(t, []call{
		{name: "common name", by: w.HTTP(shown(t, w.Federation, ca)),
			method: "GET", path: "/clusters", want: api.CodeUnauthenticated, says: "URI"},
	})
}

// shown is a TLS configuration with a certificate that names rome in its subject, by any CA.
func shown(t *testing.T, f *servertest.Federation, ca tls.Certificate) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "rome"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := f.Authority.Pin()
	if err != nil {
		t.Fatal(err)
	}
	config := tlsid.JoinConfig("127.0.0.1", pin, time.Now)
	// for any request of the server
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
	return config
}

// A certificate of another CA opens no connection.
func TestAForeignCertificateOpensNoConnection(t *testing.T) {
	f, other := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	ca, err := tls.LoadX509KeyPair(filepath.Join(other.CADir, "ca.crt"), filepath.Join(other.CADir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.HTTP(shown(t, f, ca)).Get(f.URL + api.Prefix + "/clusters")
	if err == nil {
		answer.Body.Close()
		t.Fatalf("answered with %s", answer.Status)
	}
	if !strings.Contains(err.Error(), "remote error: tls: ") {
		t.Errorf("the server does not refuse it: %v", err)
	}
}

// A certificate counts until its end, on connections that it opened before, too.
func TestACertificateThatEndsOnALiveConnection(t *testing.T) {
	now := &later{}
	f := servertest.Start(t, servertest.Options{Now: now.time})
	rome := f.Join("rome")
	if _, err := rome.Clusters(context.Background()); err != nil {
		t.Fatal(err)
	}
	now.by(31 * 24 * time.Hour)
	if _, err := rome.Clusters(context.Background()); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("a call with a certificate that ended: %v", err)
	}
}

// later is a clock that a test puts forward.
type later struct{ ahead atomic.Int64 }

func (l *later) time() time.Time    { return time.Now().Add(time.Duration(l.ahead.Load())) }
func (l *later) by(d time.Duration) { l.ahead.Add(int64(d)) }
