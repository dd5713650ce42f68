package peering_test

import (
	"context"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// The message with the Identity is lost, and the consumer's agent restarts: it knows nothing that it could ask. The
// provider repeats the message until the consumer's ResourceSlice is there.
func TestALostIdentityIsRepeated(t *testing.T) {
	h := newHandshake(t)
	h.step()
	h.step()
	h.signs(time.Now(), time.Now().Add(time.Hour))
	h.consumer = &peering.Consumer{Client: h.rome, Cluster: "rome", LiqoNamespace: "liqo"}
	if p, err := h.consumer.Open(t.Context(), "milan", nil); err != nil || p.Say != nil {
		t.Fatalf("a consumer that heard nothing says %+v, %v", p.Say, err)
	}
	if p, err := h.provider.Open(t.Context(), "rome", h.toMilan); err != nil || !p.Open || !p.Repeat {
		t.Errorf("without a ResourceSlice: %+v, %v", p, err)
	}
	h.step()
	if h.identity() == nil {
		t.Error("the repeated message makes no Identity")
	}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "general",
		Labels: liqo.Labels("rome")}}
	if err := h.milan.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	if p, err := h.provider.Open(t.Context(), "rome", h.toMilan); err != nil || !p.Open || p.Repeat {
		t.Errorf("with a ResourceSlice: %+v, %v", p, err)
	}
}

// old is a client whose cache has no Tenants and Identities yet.
type old struct{ client.Client }

func (o old) List(ctx context.Context, list client.ObjectList, of ...client.ListOption) error {
	switch list.(type) {
	case *authv1beta1.TenantList, *authv1beta1.IdentityList:
		return nil
	}
	return o.Client.List(ctx, list, of...)
}

// The provider's cache does not have the Tenant yet that it just made. That is no error: it waits.
func TestATenantThatTheCacheLacks(t *testing.T) {
	h := newHandshake(t)
	h.provider.Client = old{h.milan}
	h.step() // the nonce, which the consumer signs
	for range 2 {
		p, err := h.provider.Open(t.Context(), "rome", h.toMilan)
		if err != nil || p.Open || p.Step != peering.StepTenant {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// The consumer's cache does not have the Identity yet that it just made.
func TestAnIdentityThatTheCacheLacks(t *testing.T) {
	h := newHandshake(t)
	h.step()
	h.step()
	h.signs(time.Now(), time.Now().Add(time.Hour))
	h.consumer.Client = old{h.rome}
	h.step()
	for range 2 {
		if _, err := h.consumer.Open(t.Context(), "milan", h.toRome); err != nil {
			t.Error(err)
		}
	}
	if h.identity() == nil {
		t.Error("there is no Identity")
	}
}
