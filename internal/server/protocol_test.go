package server_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A broker says to an agent of another protocol which versions the two speak, and what to upgrade.
// What an older agent signed counts where it means the same.
func TestOtherProtocols(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	refused := func(what string, err error, versions ...string) {
		t.Helper()
		for _, part := range append(versions, "speaks protocol 2", "upgrade") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, which does not say %q", what, err, part)
			}
		}
	}
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for protocol, remedy := range map[int]string{1: "upgrade the agent", 3: "the broker first"} {
		oslo := transporttest.NewParty(t, "oslo")
		submission, err := join.Submit(f.Token("oslo"), oslo.Key,
			join.Request{Protocol: protocol, Cluster: "oslo", CSR: csr(t), Time: f.Exchange.Now().Go()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Stranger().Join(t.Context(), submission)
		refused("an agent that joins", err, "request to join of oslo is of protocol", remedy)
	}
	old, err := json.Marshal(map[string]any{"csr": csr(t)}) // with the certificate, as agents renewed by protocol 1
	if err != nil {
		t.Fatal(err)
	}
	answer, err := rome.HTTP.Post(f.URL+prefix+"/renew", "application/json", bytes.NewReader(old))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var why api.Error
	if err := json.NewDecoder(answer.Body).Decode(&why); err != nil {
		t.Fatal(err)
	}
	refused("a renewal of protocol 1", &why, "the renewal is of protocol 1")
	if _, err := f.Stranger().Renew(t.Context(), rome.Renewal(key,
		func(r *join.RenewalRequest) { r.Protocol = 3 })); err != nil {
		t.Errorf("a renewal, which is signed in the same way, by a later protocol: %v", err)
	}

	r, err := rome.Reserve(t.Context(), "key", transporttest.Request("1"))
	if err != nil {
		t.Fatal(err)
	}
	a := rome.Assignment(r)
	a.Protocol = 3
	later := struct {
		api.Assignment
		New string `json:"new"`
	}{a, "field"}
	for name, document := range map[string]string{"assignment": rome.Sign(api.DocumentAssignment, a),
		"assignment with a new field": rome.Sign(api.DocumentAssignment, later)} {
		_, err = rome.Confirm(t.Context(), r.ID, document)
		refused("a later "+name, err, "the assignment is of protocol 3")
	}
	a.Protocol, a.Issued = 1, api.Assignment{}.Issued
	if r, err = rome.Confirm(t.Context(), r.ID, rome.Sign(api.DocumentAssignment, a)); err != nil {
		t.Fatalf("an assignment of protocol 1: %v", err)
	}
	acceptance := milan.Acceptance(r)
	acceptance.Protocol = 3
	_, err = milan.Accept(t.Context(), r.ID, milan.Sign(api.DocumentAcceptance, acceptance))
	refused("a later acceptance", err, "the acceptance is of protocol 3")
	acceptance.Protocol = 1
	if r, err = milan.Accept(t.Context(), r.ID, milan.Sign(api.DocumentAcceptance, acceptance)); err != nil {
		t.Fatalf("an acceptance of protocol 1: %v", err)
	}
	end := api.End{Protocol: 1, Reservation: r.ID, Generation: 1,
		By: "rome", Consumer: "rome", Provider: "milan", Reason: api.ReasonReleased}
	_, err = rome.Release(t.Context(), r.ID, rome.Sign(api.DocumentEnd, end))
	refused("an end of protocol 1", err, "the end is of protocol 1")
	end.Protocol, end.Assignment = 3, clusterkey.Digest(r.Payload.Assignment).String()
	_, err = rome.Release(t.Context(), r.ID, rome.Sign(api.DocumentEnd, end))
	refused("a later end", err, "the end is of protocol 3")
}
