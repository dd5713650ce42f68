package peering_test

import (
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

	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// signs has milan's Liqo sign what rome asked for, from and until then.
func (h *handshake) signs(from, until time.Time) {
	h.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, h.key.Public(), h.key)
	if err != nil {
		h.Fatal(err)
	}
	var tenant authv1beta1.Tenant
	if err := h.milan.Get(h.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"}, &tenant); err != nil {
		h.Fatal(err)
	}
	tenant.Status.TenantNamespace = tenant.Namespace
	tenant.Status.AuthParams = &authv1beta1.AuthParams{CA: []byte("ca"), SignedCRT: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), APIServer: "https://milan"}
	if err := h.milan.Status().Update(h.Context(), &tenant); err != nil {
		h.Fatal(err)
	}
}

// What the provider said before its Liqo signed anew makes no Identity by which nothing could be done.
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

// Those of both sides are found, with what helps where they are not renewed.
func TestCertificates(t *testing.T) {
	h, now := newHandshake(t), time.Now().Truncate(time.Second)
	h.step()
	h.step()
	h.signs(now.Add(-8*time.Hour), now.Add(2*time.Hour))
	h.step()
	broken := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "by-hand", Name: "broken"}, Spec: authv1beta1.IdentitySpec{
		ClusterID: "paris", AuthParams: authv1beta1.AuthParams{SignedCRT: []byte("none")},
	}}
	if err := h.rome.Create(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	for _, side := range []struct {
		at                           client.Client
		peer, object, remedy, cannot string
	}{
		{h.rome, "milan", "Identity liqo-tenant-milan/controlplane-milan", "kubectl -n liqo-tenant-milan delete identity controlplane-milan", "Identity by-hand/broken: it is no PEM"},
		{h.milan, "rome", "Tenant liqo-tenant-rome/rome", "runs here", ""},
	} {
		all, err := peering.Certificates(t.Context(), side.at)
		if (err == nil) != (side.cannot == "") || err != nil && !strings.Contains(err.Error(), side.cannot) {
			t.Errorf("%s cannot be read: %v", side.peer, err)
		}
		if len(all) != 1 || all[0].Peer != side.peer || all[0].Object != side.object || !strings.Contains(all[0].Remedy, side.remedy) || !all[0].Until.Equal(now.Add(2*time.Hour)) {
			t.Fatalf("found are %+v", all)
		}
		for at, want := range map[time.Time]bool{now.Add(-time.Minute): false, now: false, now.Add(time.Minute): true, now.Add(3 * time.Hour): true} {
			if got := all[0].Overdue(at); got != want {
				t.Errorf("overdue at %s: %v", at, got)
			}
		}
	}
}
