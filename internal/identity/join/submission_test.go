package join_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB) *clusterkey.Key {
	t.Helper()
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newCSR(t testing.TB) []byte {
	t.Helper()
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := tlsid.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func submit(t testing.TB, token join.Token, key *clusterkey.Key, request join.Request) join.Submission {
	t.Helper()
	submission, err := join.Submit(token, key, request)
	if err != nil {
		t.Fatal(err)
	}
	return submission
}

func TestSubmissionOverTheWire(t *testing.T) {
	token, key, csr := newToken(t), newKey(t), newCSR(t)
	local := now.In(time.FixedZone("CET", 3600))
	wire, err := json.Marshal(submit(t, token, key, join.Request{Protocol: 1, Cluster: "milan", CSR: csr, Time: local}))
	if err != nil {
		t.Fatal(err)
	}
	var arrived join.Submission
	if err := json.Unmarshal(wire, &arrived); err != nil {
		t.Fatal(err)
	}
	request, who, err := arrived.Open(now)
	if err != nil {
		t.Fatal(err)
	}
	tlsKey, err := tlsid.CSRKey(csr)
	if err != nil {
		t.Fatal(err)
	}
	if want := (join.Applicant{Cluster: "milan", ClusterKey: key.Public().Fingerprint(), TLSKey: tlsKey}); who != want {
		t.Errorf("applicant %+v, want %+v", who, want)
	}
	if request.Protocol != 1 || request.TokenID != token.ID || !request.Time.Equal(now) {
		t.Errorf("request %+v", request)
	}
	if join.SecretHash(arrived.Secret) != token.SecretHash() {
		t.Error("what arrived is not the secret that the broker keeps the hash of")
	}
}

func TestHostileSubmissions(t *testing.T) {
	token, key, csr := newToken(t), newKey(t), newCSR(t)
	good := join.Request{Protocol: 1, Cluster: "milan", CSR: csr, Time: now}
	for _, test := range []struct {
		name   string
		change func(*join.Submission)
		want   error
	}{
		{"signed for another token", func(s *join.Submission) {
			*s = submit(t,
				newToken(t), key, good)
			s.TokenID = token.ID
		}, join.ErrBadRequest},
		{"another key", func(s *join.Submission) { s.Key = newKey(t).Public() }, clusterkey.ErrKey},
		{"no key", func(s *join.Submission) { s.Key = clusterkey.PublicKey{} }, clusterkey.ErrKey},
		{"no request", func(s *join.Submission) { s.Request = "" }, clusterkey.ErrMalformed},
		{"another kind of document", func(s *join.Submission) {
			signed, err := key.Sign("card", good)
			if err != nil {
				t.Fatal(err)
			}
			s.Request = signed
		}, clusterkey.ErrKind},
		{"bad cluster ID", func(s *join.Submission) {
			request := good
			request.Cluster = "milan/operator"
			*s = submit(t, token, key, request)
		}, join.ErrBadRequest},
		{"bad CSR", func(s *join.Submission) {
			request := good
			request.CSR = csr[1:]
			*s = submit(t, token, key, request)
		}, tlsid.ErrBadCSR},
		{"clock behind", func(s *join.Submission) {
			request := good
			request.Time = now.Add(-6 * time.Minute)
			*s = submit(t, token, key, request)
		}, join.ErrClockSkew},
		{"clock ahead", func(s *join.Submission) {
			request := good
			request.Time = now.Add(24 * time.Hour)
			*s = submit(t, token, key, request)
		}, join.ErrClockSkew},
		{"no time", func(s *join.Submission) {
			request := good
			request.Time = time.Time{}
			*s = submit(t, token, key, request)
		}, join.ErrClockSkew},
		{"clock within bounds", func(s *join.Submission) {
			request := good
			request.Time = now.Add(-4 * time.Minute)
			*s = submit(t, token, key, request)
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			submission := submit(t, token, key, good)
			test.change(&submission)
			if _, who, err := submission.Open(now); !errors.Is(err, test.want) || (err != nil && who != join.Applicant{}) {
				t.Errorf("applicant %+v, error %v, want %v", who, err, test.want)
			}
		})
	}
}
