package peering_test

import (
	"context"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// through is a handshake with a provider whose API server is reached through the network, at *proxy
// once that stands.
func through(t *testing.T) (h *handshake, proxy *string) {
	t.Helper()
	h, proxy = newHandshake(t), new(string)
	h.provider.Access = func() api.APIServerAccess { return api.APIServerNetwork }
	h.consumer.Proxy = func(context.Context, string, *api.HandshakeNetwork) (string, error) { return *proxy, nil }
	return h, proxy
}

func (h *handshake) opens() peering.Progress {
	h.Helper()
	p, err := h.consumer.Open(h.Context(), "milan", h.toRome)
	if err != nil {
		h.Fatal(err)
	}
	return p
}

// The network comes before the Tenant, which asks for the way through it; an identity by another
// way is not taken.
func TestThroughTheNetwork(t *testing.T) {
	h, proxy := through(t)
	h.step()
	if p := h.opens(); !p.Through || p.Open || p.Step != peering.StepNetwork || p.Say != nil || p.Session == "" {
		t.Fatalf("before the network stands: %+v", p)
	}
	*proxy = "http://10.81.0.3:8118"
	if p := h.opens(); !p.Through || p.Say == nil || p.Say.Tenant == nil || p.Say.Tenant.ProxyURL != *proxy {
		t.Fatalf("once it stands: %+v", p)
	}
	h.step()
	h.step()
	tenant := &authv1beta1.Tenant{}
	read := func(want string) {
		t.Helper()
		if err := h.milan.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"},
			tenant); err != nil {
			t.Fatal(err)
		}
		if tenant.Spec.ProxyURL == nil || *tenant.Spec.ProxyURL != want {
			t.Errorf("the Tenant asks for %v, want %s", tenant.Spec.ProxyURL, want)
		}
	}
	read(*proxy)
	certifies := func(through string) {
		t.Helper()
		tenant.Status.TenantNamespace, tenant.Status.AuthParams = "liqo-tenant-rome", &authv1beta1.AuthParams{CA: []byte("ca"), SignedCRT: []byte("crt"), APIServer: "https://milan", ProxyURL: &through}
		if err := h.milan.Status().Update(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		h.step()
	}
	certifies("http://192.0.2.66:80")
	if id := h.identity(); id != nil {
		t.Fatalf("by a way that nobody asked for it makes %+v", id.Spec.AuthParams)
	}
	*proxy = "http://10.82.0.3:8118" // meanwhile Liqo changes the address mapping
	h.step()
	h.step()
	read(*proxy)
	certifies(*proxy)
	if id := h.identity(); id == nil || *id.Spec.AuthParams.ProxyURL != *proxy {
		t.Fatalf("the identity is %+v", id)
	}

	h.provider.Access = nil // the policy changes: what stands stays
	p, err := h.provider.Open(t.Context(), "rome", h.toMilan)
	if err != nil || !p.Open || !p.Through {
		t.Errorf("%+v, %v", p, err)
	}
}

// A consumer that does not know of it is told, and gets no Tenant; one that is not asked says
// nothing of a proxy.
func TestThroughTheNetworkOfAnOlderConsumer(t *testing.T) {
	h, _ := through(t)
	h.consumer.Proxy = nil
	h.step()
	if p := h.opens(); p.Say == nil || p.Say.Tenant == nil || p.Say.Tenant.ProxyURL != "" {
		t.Fatalf("%+v", p)
	}
	h.toMilan = &api.Handshake{Session: h.toRome.Session, HandshakeContent: *h.opens().Say}
	_, err := h.provider.Open(t.Context(), "rome", h.toMilan)
	if api.CodeOf(err) != api.CodeNoNetwork || !strings.Contains(err.Error(), "update the agent of rome") {
		t.Errorf("%v", err)
	}
	var tenants authv1beta1.TenantList
	if err := h.milan.List(t.Context(), &tenants); err != nil || len(tenants.Items) > 0 {
		t.Errorf("%d Tenants, %v", len(tenants.Items), err)
	}
	h.provider.Access = func() api.APIServerAccess { return api.APIServerDirect }
	p, err := h.provider.Open(t.Context(), "rome", h.toMilan)
	if err != nil || p.Through || p.Say.Nonce.APIServerAccess != "" {
		t.Errorf("%+v, %v", p, err)
	}
}
