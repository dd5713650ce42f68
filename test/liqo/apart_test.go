package liqo

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// Two namespaces reserved the same at one provider. The one that wants more pods than it reserved takes nothing of
// what the other reserved, gets more when it reserves more, and loses that again. A VirtualNodePool shares their node.
func TestNamespacesAtOneProviderAreKeptApart(t *testing.T) {
	w := start(t)
	noisy := w.ask(t, w.rome, w.milan, "noisy", amounts("1", "1Gi"))
	noisy.becomes(api.Active)
	quiet := w.ask(t, w.rome, w.milan, "quiet", amounts("1", "1Gi"))
	quiet.becomes(api.Active)
	noisy.run(8, "250m", "64Mi")
	noisy.runs(4)
	noisy.tells(api.ConditionPodsComply, metav1.ConditionFalse, "noisy uses all that its requests reserve at milan")
	quiet.run(4, "250m", "64Mi")
	quiet.runs(4)
	noisy.runs(4)
	quiet.tells(api.ConditionPodsComply, metav1.ConditionTrue)
	noisy.tellsNothingOf(quiet)
	quiet.tellsNothingOf(noisy)

	more := w.askIn(t, "noisy", "more", "milan", amounts("1", "1Gi"))
	more.becomes(api.Active)
	noisy.runs(8)
	more.release()
	noisy.runs(4)
	quiet.runs(4)

	// A VirtualNodePool grows beside them, and leaves again.
	a := w.bursts(t, "bursts-beside", func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan"} })
	work := a.run(2, "500m", "64Mi")
	a.runs(2)
	a.poolBecomes("1/1/4")
	quiet.runs(4)
	a.scale(work, 0)
	a.poolBecomes("0/0/4")
	quiet.runs(4)
	a.deletePool()

	// What is closed leaves in order, too.
	noisy.release()
	quiet.runs(4)
	quiet.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// tellsNothingOf checks that the objects of the request's namespace name neither another request's reservation nor its
// namespace. They share a virtual node.
func (a *asked) tellsNothingOf(other *asked) {
	a.t.Helper()
	for _, all := range []kube.ObjectList{&api.ResourceRequestList{}, &api.ReservationInstructionList{}, &api.ContractList{}} {
		if err := a.from.Objects.List(a.t.Context(), all, kube.InNamespace(a.request.Namespace)); err != nil {
			a.t.Fatal(err)
		}
		text, err := json.Marshal(all)
		if err != nil {
			a.t.Fatal(err)
		}
		for _, secret := range []string{other.request.Status.Reservation, other.request.Namespace} {
			if strings.Contains(string(text), secret) {
				a.t.Errorf("objects of %s name %s: %s", a.request.Namespace, secret, text)
			}
		}
	}
}
