package distributedcatalog

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

// villa is an agent whose cluster rome bought of milan and sold to oslo.
type villa struct{ deals []api.Envelope[api.Deal] }

func (v villa) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{
		api.Prefix + "/status":    api.AgentStatus{Cluster: "rome", Broker: "https://broker.example"},
		api.Prefix + "/contracts": api.List[api.Deal]{Items: v.deals},
	}[r.URL.Path]
	_ = json.NewEncoder(w).Encode(answer)
}

func (villa) Profile(context.Context) (Profile, error)  { return Profile{}, nil }
func (villa) SetProfile(context.Context, Profile) error { return nil }
func (villa) Peerings(context.Context) ([]api.Peering, error) {
	since := metav1.NewTime(time.Now().Add(-3 * time.Hour))
	peering := func(cluster string, role api.PeeringRole, state api.PeeringState,
		conditions ...metav1.Condition) api.Peering {
		return api.Peering{Spec: api.PeeringSpec{Cluster: cluster, Role: role},
			Status: api.PeeringStatus{State: state, Since: &since, Conditions: conditions}}
	}
	return []api.Peering{
		peering("milan", api.RoleProvider, api.PeeringOpen,
			metav1.Condition{Type: api.ConditionNetworkReady, Status: metav1.ConditionTrue}),
		peering("oslo", api.RoleConsumer, api.PeeringOpening),
		peering("paris", api.RoleProvider, api.PeeringLingering),
	}, nil
}

// What is bought and sold, and used of it, is added up by cluster and direction, and beside it
// stands how far the peering is.
func TestPeerings(t *testing.T) {
	deal := func(buyer, seller string, state api.State, cpu, used string) api.Envelope[api.Deal] {
		d := api.Deal{Used: api.Resources{"cpu": resource.MustParse(used)}}
		d.Status.State = state
		d.Status.Terms = api.ContractTerms{Buyer: buyer, Seller: seller,
			Resources: api.Resources{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}}
		return api.Envelope[api.Deal]{Payload: d}
	}
	v := villa{[]api.Envelope[api.Deal]{
		deal("rome", "milan", api.Active, "2", "500m"), deal("rome",
			"milan", api.Reserved, "1", "0"), deal("rome", "milan", api.Released, "9", "9"),
		deal("oslo", "rome", api.Active, "4", "4"),
	}}
	w := httptest.NewRecorder()
	local := server.Local(nil, nil, 1000, slog.New(slog.DiscardHandler))
	Connector(t.Context(), v, ConnectorOptions{Home: v, Server: local}).ServeHTTP(w,
		httptest.NewRequest("GET", "/api/peer", nil))
	var got []PeeringDocument
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	none := PeeringUsage{"0", "0", "0", "0"}
	want := []PeeringDocument{
		{"milan", "milan", "Established", "Established", "Established",
			PeeringUsage{"500m", "0", "3", "2Gi"}, "None", none, "3h"},
		{"oslo", "oslo", "None", "Pending", "None", none, "Pending", PeeringUsage{"4", "0", "4", "1Gi"}, "3h"},
		{"paris", "paris", "None", "Established", "Established", none, "None", none, "3h"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
