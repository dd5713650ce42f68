package distributedcatalog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

// villa is an agent whose cluster rome bought of milan and sold to oslo.
type villa struct{}

func (villa) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(api.AgentStatus{Cluster: "rome", Broker: "https://broker.example"})
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
	var objects []kube.Object
	deal := func(buyer, seller string, state api.State, cpu, used string) {
		meta := metav1.ObjectMeta{Namespace: api.Namespace, Name: fmt.Sprintf("r-%d", len(objects))}
		o := &api.Contract{ObjectMeta: meta, Status: api.ContractStatus{State: state, Terms: api.ContractTerms{
			Buyer: buyer, Seller: seller,
			Resources: api.Resources{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}}}}
		bought := &api.ReservationInstruction{ObjectMeta: meta}
		bought.Status.Used = api.Resources{"cpu": resource.MustParse(used)}
		objects = append(objects, o, bought)
	}
	deal("rome", "milan", api.Active, "2", "500m")
	deal("rome", "milan", api.Reserved, "1", "0")
	deal("rome", "milan", api.Released, "9", "9")
	deal("oslo", "rome", api.Active, "4", "4")
	v := villa{}
	w := httptest.NewRecorder()
	local := server.Local(nil, nil, 1000, slog.New(slog.DiscardHandler))
	Connector(t.Context(), v, ConnectorOptions{Home: v, Server: local,
		Objects: fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(objects...).Build()}).ServeHTTP(w,
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
