package ui_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// withoutAgent opens the pages of a cluster that has some objects, and whose agent never answers.
func withoutAgent(t *testing.T, objects ...kube.Object) (*admin, kube.Client) {
	t.Helper()
	config := kubeapi.New(kubeapi.Options{Types: federation.Kinds()}).Config()
	direct, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		filled := o.DeepCopyObject().(kube.Object)
		if err := direct.Create(t.Context(), filled); err != nil {
			t.Fatal(err)
		}
		o.SetResourceVersion(filled.GetResourceVersion())
		o.SetUID(filled.GetUID())
		if err := direct.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	acts := cluster.At(client.New("unix://"+t.TempDir()+"/nobody", nil), direct)
	may := func(context.Context, string) pages.Rights {
		return pages.Rights{Request: true, Approve: true, Sell: true}
	}
	a := &admin{t: t, pages: ui.New(ui.Options{Reads: acts, Acts: acts, User: "ann", Patience: patient, May: may,
		Log: slog.New(slog.DiscardHandler)}, "/s/0")}
	t.Cleanup(a.pages.Close)
	return a, direct
}

// sold is a contract by which milan sold something to rome.
func sold() *api.Contract {
	now := metav1.Now()
	c := &api.Contract{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-1"}, Spec: api.ContractSpec{Reservation: "r-1"}}
	c.Status.State, c.Status.Digest, c.Status.Due = api.Active, other, &api.Due{Amount: "1.50 EUR", At: now}
	c.Status.Terms = api.ContractTerms{Buyer: "rome", Seller: "milan", Offer: "web", Plan: "small", Units: 1, Begins: now, Until: now,
		Resources: api.Resources{"cpu": resource.MustParse("1")}}
	return c
}

// While the agent does not answer, objects that only the agent writes name the cluster. If there is none, no page shows
// what was sold as bought.
func TestObjectsNameTheClusterOfAnAgentThatIsAway(t *testing.T) {
	between := api.Instruction{Reservation: "r-1", Consumer: "rome", Provider: "milan", Until: metav1.Now(),
		Resources: api.Resources{"cpu": resource.MustParse("1")}}
	for name, o := range map[string]kube.Object{
		"the agent's record": &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName},
			Status: api.RecordedAgent{Cluster: "milan", Namespace: api.Namespace}},
		"a ReservationInstruction": &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r-2"},
			Spec: api.Instruction{Reservation: "r-2", Consumer: "milan", Provider: "oslo", Until: between.Until, Resources: between.Resources}},
	} {
		a, _ := withoutAgent(t, o, sold())
		if page := a.get("/contracts"); !strings.Contains(page, "milan earns") || !strings.Contains(page, "Take back") {
			t.Errorf("%s does not name the cluster:\n%s", name, page)
		}
		if file := a.get("/contracts.csv"); !strings.Contains(file, "r-1,seller,rome,") {
			t.Errorf("with %s the file is\n%s", name, file)
		}
	}
	a, _ := withoutAgent(t, sold())
	page := a.get("/contracts")
	for _, text := range []string{"rome buys from milan", "What is bought and what is sold is not known"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %q:\n%s", text, page)
		}
	}
	for _, text := range []string{"<strong>Bought", "Take back", " pays", " earns"} {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q", text)
		}
	}
	w := httptest.NewRecorder()
	a.pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/contracts.csv", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("the file is answered %d:\n%s", w.Code, w.Body)
	}
}
