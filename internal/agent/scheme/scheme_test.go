package scheme

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// kinds are those of which the manager caches a part.
func kinds() []kubeapi.Type {
	types := []kubeapi.Type{{GroupVersion: corev1.SchemeGroupVersion, Kind: "Node", Resource: "nodes"}}
	for _, kind := range []string{"ProviderInstruction", "Advertisement", "Peer", "Peering", "Broker", "Offer"} {
		types = append(types, kubeapi.Type{
			GroupVersion: api.GroupVersion, Kind: kind, Resource: strings.ToLower(kind) + "s", Namespaced: true,
		})
	}
	return types
}

// The manager's client knows Bourse's kinds and Liqo's, and there may be several managers in one process.
func TestNewManager(t *testing.T) {
	config := kubeapi.New(kubeapi.Options{Types: kinds()}).Config()
	for range 2 {
		m, err := NewManager(config, "bourse", true, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if kind, err := apiutil.GVKForObject(&api.Peering{}, m.GetScheme()); err != nil ||
			kind.GroupVersion() != api.GroupVersion {
			t.Errorf("a Peering is of %s, %v", kind, err)
		}
		if _, err := apiutil.GVKForObject(liqo.Tenant(), m.GetScheme()); err != nil {
			t.Error(err)
		}
	}
}

// The manager caches no managedFields.
func TestCachesNoManagedFields(t *testing.T) {
	config := kubeapi.New(kubeapi.Options{Types: kinds()}).Config()
	c, err := client.New(config, client.Options{Scheme: New()})
	if err != nil {
		t.Fatal(err)
	}
	peer := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "milan"}}
	peer.SetGroupVersionKind(api.GroupVersion.WithKind("Peer"))
	//lint:ignore SA1019 the other Apply needs generated types
	if err := c.Patch(t.Context(), peer, client.Apply, client.FieldOwner("test")); err != nil || len(peer.ManagedFields) == 0 {
		t.Fatalf("it has %+v, %v", peer.ManagedFields, err)
	}
	m, err := NewManager(config, "bourse", false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.GetCache().Start(ctx) }()
	if !m.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not start")
	}
	cached := &api.Peer{}
	err = m.GetCache().Get(ctx, client.ObjectKeyFromObject(peer), cached)
	if err != nil || cached.UID != peer.UID || len(cached.ManagedFields) > 0 {
		t.Errorf("it caches %+v, %v", cached, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
