package answers

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// What would end with a request are the pods on its virtual nodes, also of two parts on one node.
func TestImpactNamesPods(t *testing.T) {
	c, a := newCluster(t)
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	if err := c.o.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	a.pods = map[string][]string{}
	for id, uid := range map[string]string{"r-1": string(o.UID), "r-2": string(o.UID), "r-3": "of another one"} {
		r := &market.Reservation{ID: id, State: api.Active, Consumer: "rome", Provider: "milan", Pool: "general", Generation: 1,
			Object: &market.Object{Namespace: "team", Name: "web", UID: uid}}
		if id == "r-3" {
			r.Provider = "oslo"
		}
		a.pods[r.Slice()] = []string{r.Provider + "/b", r.Provider + "/a"}
		if _, err := c.o.Ledger.Do(t.Context(), market.Note{Reservation: r}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Impact(t.Context(), "team", "web")
	if err != nil || got.Pods == nil || got.Pods.Count != 2 || !slices.Equal(got.Pods.Names, []string{"milan/a", "milan/b"}) {
		t.Errorf("it names %+v, %v", got.Pods, err)
	}
}
