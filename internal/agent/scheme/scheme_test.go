package scheme

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// The manager's client knows Bourse's kinds and Liqo's, and there may be several managers in one process.
func TestNewManager(t *testing.T) {
	types := []kubeapi.Type{{GroupVersion: corev1.SchemeGroupVersion, Kind: "Node", Resource: "nodes"}}
	for _, kind := range []string{"ProviderInstruction", "Advertisement", "Peer", "Peering", "Broker", "Offer"} {
		types = append(types, kubeapi.Type{
			GroupVersion: api.GroupVersion, Kind: kind, Resource: strings.ToLower(kind) + "s", Namespaced: true,
		})
	}
	config := kubeapi.New(kubeapi.Options{Types: types}).Config()
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
