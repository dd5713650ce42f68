package liqo

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// A consumer that does not answer any more is evicted: the provider waits for it for a while, then
// has Liqo take its rights and what it had, and only then lets go of it. When the consumer is back,
// it borrows again.
func TestTheConsumerIsGone(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.paris, "gone", amounts("1", "1Gi"))
	a.becomes(api.Active)
	a.run(1, "100m", "64Mi")
	a.running(w.paris, 1)
	w.rome.Agent(0).Expect()
	w.rome.Agent(0).Kill()
	w.rome.Cluster.Kill(lab.LiqoCRDReplicator)
	w.evictsWithoutIt(t, w.paris, w.rome)
	if err := w.rome.Cluster.Start(t.Context(), lab.LiqoCRDReplicator); err != nil {
		t.Fatal(err)
	}
	a.borrowsAnew(w.paris, "again")
}

// The provider takes a consumer's rights and what it copied while the consumer's Liqo does not see
// it, which from then on is told only that it may not look. By itself it would keep for ever what
// it remembers of the copies, and the tenant namespace with it.
func TestLiqoDoesNotSeeItsCopiesGo(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.paris, "unseen", amounts("1", "1Gi"))
	a.becomes(api.Active)
	w.rome.Agent(0).Expect()
	w.rome.Agent(0).Kill()
	resume, err := w.rome.Cluster.Pause(lab.LiqoCRDReplicator)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(resume)
	if err := w.paris.Cluster.Restart(t.Context(), lab.APIServer); err != nil { // watches must be opened again
		t.Fatal(err)
	}
	w.evictsWithoutIt(t, w.paris, w.rome)
	resume()
	a.borrowsAnew(w.paris, "seen")
}

// borrowsAnew starts the consumer's agent again, which finds what it had ended, lets go of it, and
// reserves the same once more.
func (a *asked) borrowsAnew(provider *federation.Member, name string) {
	a.t.Helper()
	if _, err := a.from.StartAgent(0); err != nil {
		a.t.Fatal(err)
	}
	a.becomes(api.Released)
	a.nothingLeft(a.t, a.from, provider)
	if err := a.from.Objects.Delete(a.t.Context(), a.request); err != nil {
		a.t.Fatal(err)
	}
	again := a.ask(a.t, a.from, provider, name, amounts("1", "1Gi"))
	again.becomes(api.Active)
	again.release()
	a.nothingLeft(a.t, a.from, provider)
}

// evictsWithoutIt has a provider evict a consumer that does not answer, and waits until nothing of
// it is left there.
func (w *world) evictsWithoutIt(t *testing.T, provider, consumer *federation.Member) {
	t.Helper()
	if _, err := provider.Evict(t.Context(), consumer.Name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of "+consumer.Name+" is left at "+provider.Name, func(ctx context.Context) error {
		var list corev1.NamespaceList
		if err := provider.Objects.List(ctx, &list,
			kube.MatchingLabels{"liqo.io/remote-cluster-id": consumer.Name}); err != nil {
			return err
		}
		var consumers corev1.ConfigMap
		if err := provider.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "bourse-consumers"},
			&consumers); err != nil {
			return err
		}
		if len(list.Items) > 0 || len(consumers.Data) > 0 {
			return fmt.Errorf("namespaces %v, consumers %v", namesIn(&list), consumers.Data)
		}
		return nil
	})
}
