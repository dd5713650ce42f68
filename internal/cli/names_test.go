package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
)

// A name that a user gives means one reservation: no empty name means one, and a name of two namespaces is refused.
// Each part of a split request names that request.
func TestWhatANameMeans(t *testing.T) {
	made := func(id, object string, hours int) api.Envelope[api.Reservation] {
		created := metav1.NewTime(time.Now().Add(time.Duration(hours) * time.Hour))
		return api.Envelope[api.Reservation]{ID: id, Payload: api.Reservation{Object: object, Created: created, State: api.Released}}
	}
	split := requestOf("split", api.RequestStatus{Status: api.ResourceRequestStatus{Reservation: "r-part-1",
		Parts: []api.RequestPart{{Reservation: "r-part-1"}, {Reservation: "r-part-2"}}}}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(itemsOf(made("r-lent", "", 0), made("r-old", "team/web", -2), made("r-new", "team/web", -1),
			made("r-other", "other/shop", -2), made("r-same", "team/shop", -1))[0])
	}))
	t.Cleanup(s.Close)
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := cluster.At(client.New(s.URL, nil), fake.NewClientBuilder().WithScheme(scheme).WithObjects(&split).Build())
	for name, want := range map[string]string{
		"": "", "web": "r-new", "team/shop": "r-same", "r-part-2": "r-part-1", "r-nobody": "r-nobody",
	} {
		if id, err := reservationID(t.Context(), c, name); err != nil || id != want {
			t.Errorf("%q means %q, %v; want %q", name, id, err, want)
		}
	}
	_, err := reservationID(t.Context(), c, "shop")
	if api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "other/shop and team/shop") {
		t.Errorf("shop: %v", err)
	}
}

// NAMESPACE/NAME has a command look into that namespace, unless a flag names another or other names are elsewhere.
func TestANameMayHaveItsNamespace(t *testing.T) {
	for _, c := range []struct {
		flag  string
		all   bool
		names []string
		want  string
	}{
		{"", false, []string{"team/web"}, "team"},
		{"", false, []string{"team/web", "team/db"}, "team"},
		{"", false, []string{"team/web", "work/db"}, ""},
		{"", false, []string{"web", "team/db"}, ""},
		{"work", false, []string{"team/web"}, "work"},
		{"", true, []string{"team/web"}, ""},
		{"", false, nil, ""},
	} {
		sh := &shell{context: "rome", namespace: c.flag, allNamespaces: c.all}
		if sh.lookInto(c.names...); sh.namespace != c.want {
			t.Errorf("with -n %q and -A %t, %q looks into %q, want %q", c.flag, c.all, c.names, sh.namespace, c.want)
		}
	}
	sh := &shell{server: "unix:///agent", namespace: ""}
	if sh.lookInto("team/web"); sh.namespace != "" {
		t.Error("the agent's own listener is asked for a namespace")
	}
}

// What says that a list is empty does not lead back to the same list.
func TestAnEmptyListSaysWhereElse(t *testing.T) {
	if got := noPlan(api.CatalogQuery{}); strings.Contains(got, "bourse catalog") {
		t.Errorf("without a filter it says %q", got)
	}
	if got := noPlan(api.CatalogQuery{Seller: "milan"}); !strings.Contains(got, "bourse catalog") {
		t.Errorf("with a filter it says %q", got)
	}
	got := (&shell{namespace: "team"}).noReservations()
	if !strings.Contains(got, "in namespace team") || !strings.Contains(got, "bourse reservations -A") {
		t.Errorf("of a namespace it says %q", got)
	}
	if got := (&shell{namespace: "team", allNamespaces: true}).noReservations(); strings.Contains(got, "team") {
		t.Errorf("of all namespaces it says %q", got)
	}
}
