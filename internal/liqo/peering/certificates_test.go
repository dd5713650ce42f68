package peering_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// signs has milan's Liqo sign what rome asked for, from and until then.
func (h *handshake) signs(from, until time.Time) {
	h.Helper()
	var tenant authv1beta1.Tenant
	if err := h.milan.Get(h.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"},
		&tenant); err != nil {
		h.Fatal(err)
	}
	tenant.Status.TenantNamespace = tenant.Namespace
	tenant.Status.AuthParams = &authv1beta1.AuthParams{CA: []byte("ca"),
		SignedCRT: h.certificate(from, until), APIServer: "https://milan"}
	if err := h.milan.Status().Update(h.Context(), &tenant); err != nil {
		h.Fatal(err)
	}
}

// certificate is one from and until then.
func (h *handshake) certificate(from, until time.Time) []byte {
	h.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, h.key.Public(), h.key)
	if err != nil {
		h.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A message from before the provider's Liqo signed again creates no unusable Identity.
func TestACertificateThatHasEnded(t *testing.T) {
	h, now := newHandshake(t), time.Now()
	h.step()
	h.step()
	h.signs(now.Add(-2*time.Hour), now.Add(-time.Hour))
	h.step()
	if id := h.identity(); id != nil {
		t.Fatalf("of a certificate that has ended it makes %+v", id.Spec)
	}
	h.signs(now.Add(-time.Hour), now.Add(time.Hour))
	h.step()
	if h.identity() == nil {
		t.Fatal("of the next it makes no Identity")
	}
}

// An ended certificate is requested again and replaced, also if the agents forgot their state meanwhile. An
// ended one, an older one and one of another opening do not replace it.
func TestACertificateThatEnds(t *testing.T) {
	h, now := newHandshake(t), time.Now()
	h.step()
	h.step()
	h.signs(now.Add(-3*time.Hour), now.Add(time.Hour))
	h.step()
	if p := h.opens(); p.Say != nil {
		t.Fatalf("before it has ended: %+v", p)
	}
	old, ended := h.identity(), h.certificate(now.Add(-3*time.Hour), now.Add(-time.Minute))
	old.Spec.AuthParams.SignedCRT = ended
	if err := h.rome.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}

	h.crash()
	h.toRome, h.toMilan = nil, nil
	p := h.opens()
	if !p.Open || !p.Repeat || p.Say == nil || p.Say.Tenant == nil || p.Session == "" {
		t.Fatalf("after it has ended: %+v", p)
	}
	h.toMilan = &api.Handshake{Session: p.Session, HandshakeContent: *p.Say}
	h.signs(now.Add(-time.Hour), now.Add(time.Hour))
	for name, spoil := range map[string]func(*api.Handshake){
		"of another session":   func(said *api.Handshake) { said.Session = "other" },
		"of another challenge": func(said *api.Handshake) { said.Identity.Challenge = "other" },
		"of another way":       func(said *api.Handshake) { said.Identity.ProxyURL = "http://elsewhere" },
		"one that has ended": func(said *api.Handshake) {
			said.Identity.Certificate = h.certificate(now.Add(-2*time.Hour), now.Add(-time.Hour))
		},
		"an older one": func(said *api.Handshake) {
			said.Identity.Certificate = h.certificate(now.Add(-4*time.Hour), now.Add(time.Hour))
		},
		"none": func(said *api.Handshake) { said.Identity.Certificate = []byte("none") },
	} {
		h.toRome = h.says()
		spoil(h.toRome)
		if again := h.opens(); again.Say == nil || !bytes.Equal(h.identity().Spec.AuthParams.SignedCRT, ended) {
			t.Errorf("%s is taken for the answer: %+v", name, again)
		}
	}
	h.toRome = h.says()
	h.opens()
	if is := h.identity(); bytes.Equal(is.Spec.AuthParams.SignedCRT, ended) ||
		is.UID != old.UID || is.Spec.AuthParams.APIServer != "https://milan" {
		t.Errorf("the Identity is %+v", is.Spec)
	}
	if p := h.opens(); !p.Open || p.Say != nil {
		t.Errorf("at the end: %+v", p)
	}
}

// says is what milan says now.
func (h *handshake) says() *api.Handshake {
	h.Helper()
	p, err := h.provider.Open(h.Context(), "rome", h.toMilan)
	if err != nil {
		h.Fatal(err)
	}
	return &api.Handshake{Session: p.Session, HandshakeContent: *p.Say}
}

// Those of both sides are found, with what helps where they are not renewed.
func TestCertificates(t *testing.T) {
	h, now := newHandshake(t), time.Now().Truncate(time.Second)
	h.step()
	h.step()
	h.signs(now.Add(-8*time.Hour), now.Add(2*time.Hour))
	h.step()
	broken := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "by-hand", Name: "broken"},
		Spec: authv1beta1.IdentitySpec{
			ClusterID: "paris", AuthParams: authv1beta1.AuthParams{SignedCRT: []byte("none")},
		}}
	if err := h.rome.Create(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	for _, side := range []struct {
		at                           client.Client
		peer, object, remedy, cannot string
	}{
		{h.rome, "milan", "Identity liqo-tenant-milan/controlplane-milan",
			"check that liqo-controller-manager runs in milan", "Identity by-hand/broken: it is not PEM"},
		{h.milan, "rome", "Tenant liqo-tenant-rome/rome", "runs here", ""},
	} {
		all, err := peering.Certificates(t.Context(), side.at)
		if (err == nil) != (side.cannot == "") || err != nil && !strings.Contains(err.Error(), side.cannot) {
			t.Errorf("%s cannot be read: %v", side.peer, err)
		}
		if len(all) != 1 || all[0].Peer != side.peer || all[0].Object != side.object ||
			!strings.Contains(all[0].Remedy, side.remedy) || !all[0].Until.Equal(now.Add(2*time.Hour)) {
			t.Fatalf("found are %+v", all)
		}
		for at, want := range map[time.Time]bool{now.Add(-time.Minute): false,
			now: false, now.Add(time.Minute): true, now.Add(3 * time.Hour): true} {
			if got := all[0].Overdue(at); got != want {
				t.Errorf("overdue at %s: %v", at, got)
			}
		}
	}
}
