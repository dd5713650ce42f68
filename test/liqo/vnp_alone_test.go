package liqo

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// While the broker and the provider's agent are dead, the pods of a pool run on, and it does not shrink. That
// it is not extended, and cannot grow, are conditions. Without the broker, it is extended as soon as the
// provider's agent is back; it grows once the broker is back.
func TestAPoolWithoutItsBroker(t *testing.T) {
	w := start(t)
	a := w.bursts(t, "alone", func(s *api.VirtualNodePoolSpec) {
		s.Providers.Only = []string{"milan"}
		s.ScaleDownAfter = &metav1.Duration{Duration: time.Second}
		s.Template.Duration = &metav1.Duration{Duration: 4 * time.Minute}
	})
	work := a.run(6, "500m", "64Mi")
	a.running(w.milan, 6)
	a.poolBecomes("3/3/4")
	w.spent = true // if it fails from here on
	w.Broker.Kill()
	w.milan.Agent(0).Kill()
	w.romeIsAlone(t)
	a.scale(work, 2)
	a.running(w.milan, 2)
	here, there := a.uids(w.rome), a.uids(w.milan)
	stay := func() {
		t.Helper()
		a.stay(here, a.uids(w.rome))
		a.stay(there, a.uids(w.milan))
	}
	a.condition(api.ConditionExtended, metav1.ConditionFalse, "NotExtended")
	if wish := a.child(t.Context()).Annotations[vnp.WishAnnotation]; a.status(t.Context()).CPU != "1/3/4" || wish != "" {
		t.Errorf("without the broker it has %s, and wishes for %q", a.pool.Status.CPU, wish)
	}
	stay()
	if _, err := w.milan.StartAgent(0); err != nil {
		t.Fatal(err)
	}
	a.condition(api.ConditionExtended, metav1.ConditionTrue, "Extended")
	a.scale(work, 8)
	a.condition(api.ConditionLimited, metav1.ConditionTrue, vnp.BrokerUnavailable)
	a.running(w.milan, 6)
	stay()
	if err := w.StartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Members {
		if err := m.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.spent = false
	a.running(w.milan, 8)
	a.poolBecomes("4/4/4")
	stay()
	if err := w.rome.Objects.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	a.poolBecomes("0/0/4")
	w.nothingLeft(t, w.rome, w.milan)
	a.deletePool()
}
