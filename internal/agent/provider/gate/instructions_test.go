package gate_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
)

// deletions counts how often objects are deleted.
type deletions struct {
	client.Client
	n int
}

func (d *deletions) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	d.n++
	return d.Client.Delete(ctx, o, opts...)
}

// A reservation has an object from its commitment to its end. Edits of the object change nothing about the
// reservation. One that others keep for a while is deleted once.
func TestInstructions(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	server := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: "ProviderInstruction", Resource: "providerinstructions", Namespaced: true, Status: true}}})
	plain, err := client.New(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := &deletions{Client: plain}
	g := newGate(t, "8")
	shown := &gate.Instructions{Client: c, Namespace: api.Namespace, Market: g.Market}
	show := func() (i api.ProviderInstruction, found bool) {
		t.Helper()
		if _, err := shown.Show(t.Context(), g.ours("r-1")); err != nil {
			t.Fatal(err)
		}
		err := c.Get(t.Context(), types.NamespacedName{Namespace: api.Namespace, Name: "r-1"}, &i)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return i, err == nil
	}
	d := g.deal("r-1", "2")
	_ = g.hears(d.Signed()) // accepted, but the broker is away
	if _, found := show(); found {
		t.Error("what is not committed is shown")
	}
	g.takes(d)
	if err := g.hears(d.Shown()); err != nil {
		t.Fatal(err)
	}
	i, found := show()
	if !found || i.Spec.Consumer != "rome" ||
		i.Spec.Assignment != clusterkey.Digest(d.Shown().Payload.Assignment).String() ||
		i.Status.State != api.Reserved || !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
		t.Errorf("it shows %+v", i)
	}
	if again, _ := show(); again.ResourceVersion != i.ResourceVersion {
		t.Error("it writes although nothing changed")
	}
	i.Spec.Consumer = "oslo"
	if err := c.Update(t.Context(), &i); err != nil {
		t.Fatal(err)
	}
	if i, _ = show(); i.Spec.Consumer != "rome" {
		t.Errorf("it shows what somebody else wrote: %+v", i.Spec)
	}
	i.Finalizers = []string{"example.com/keeps"}
	if err := c.Update(t.Context(), &i); err != nil {
		t.Fatal(err)
	}
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	if err := g.hears(d.Ending(g.rome, api.ReasonReleased)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if i, found = show(); !found || i.DeletionTimestamp == nil || c.n != 1 {
			t.Errorf("it was deleted %d times, want once: %+v", c.n, i.ObjectMeta)
		}
	}
	i.Finalizers = nil
	if err := c.Update(t.Context(), &i); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, found := show(); found {
			t.Error("what is over is shown")
		}
	}
}
