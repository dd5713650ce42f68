package liqo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// If a process is killed at any step of a reservation, the rest is done after it is back. One of the three is killed
// at each step, the moment that the step's object appears, or is gone.
func TestKilledAtEachStep(t *testing.T) {
	w := start(t)
	victims := []victim{w.agentOf(t, w.rome), w.agentOf(t, w.milan), w.theBroker(t)}
	for turn := range turns(victims) {
		name := fmt.Sprintf("killed-%d", turn)
		killed := 0
		w.liveThrough(t, name, func(when string, is func(context.Context) error) {
			t.Helper()
			v := victims[(turn+killed)%len(victims)]
			killed++
			began := time.Now()
			at(t, when, is)
			t.Logf("%s: %s after %s: %s is killed", name, when, time.Since(began).Round(time.Millisecond), v.name)
			v.kill()
			v.start()
		})
	}
}

// liveThrough makes a reservation of rome at milan, runs pods there and ends it, in a namespace of that name. It calls
// kill for each step, with what the step is and a check that returns nil as soon as it is reached.
func (w *world) liveThrough(t *testing.T, name string, kill func(when string, is func(context.Context) error)) {
	t.Helper()
	slice := market.SliceName("rome", "milan", api.GeneralPool)
	atRome, atMilan := "liqo-tenant-milan", "liqo-tenant-rome"

	a := w.ask(t, w.rome, w.milan, name, amounts("1", "1Gi"))
	kill("it is asked for", func(ctx context.Context) error { return nil })
	kill("it is held, and the provider is asked", asksProvider(w.milan))
	kill("the nonce is there", there(w.milan, &corev1.Secret{}, atMilan, "liqo-nonce"))
	kill("the nonce is signed", there(w.rome, &corev1.Secret{}, atRome, "liqo-signed-nonce"))
	kill("the Tenant is there", there(w.milan, &authv1beta1.Tenant{}, atMilan, "rome"))
	kill("the Identity is there", there(w.rome, &authv1beta1.Identity{}, atRome, "controlplane-milan"))
	kill("the ResourceSlice is there", there(w.rome, &authv1beta1.ResourceSlice{}, atRome, slice))
	kill("the provider has granted it", grants(w.milan, atMilan, slice))
	kill("the Node is there", there(w.rome, &corev1.Node{}, "", slice))
	kill("the namespace is offloaded", there(w.rome, &offv1beta1.NamespaceOffloading{}, name, "offloading"))
	a.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "1")
	a.run(2, "100m", "64Mi")
	a.running(w.milan, 2)

	if err := w.rome.Objects.Delete(t.Context(), a.request.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	kill("its end is asked for", func(context.Context) error { return nil })
	kill("the namespace is offloaded no longer", gone(w.rome, &offv1beta1.NamespaceOffloading{}, name, "offloading"))
	kill("the ResourceSlice is gone", gone(w.rome, &authv1beta1.ResourceSlice{}, atRome, slice))
	kill("the Identity is gone", gone(w.rome, &authv1beta1.Identity{}, atRome, "controlplane-milan"))
	kill("the Tenant is gone", gone(w.milan, &authv1beta1.Tenant{}, atMilan, "rome"))
	w.nothingLeft(t, w.rome, w.milan)
}

// there returns nil as soon as an object is there. It reads the object.
func there(m *federation.Member, o kube.Object, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return m.Objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, o)
	}
}

// gone returns nil as soon as an object is not there.
func gone(m *federation.Member, o kube.Object, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := there(m, o, namespace, name)(ctx)
		if err == nil {
			return errors.New("it is there")
		}
		return kube.IgnoreNotFound(err)
	}
}

// asksProvider returns nil as soon as a provider is asked for a reservation that is not over.
func asksProvider(provider *federation.Member) func(context.Context) error {
	return func(ctx context.Context) error {
		var list api.ProviderInstructionList
		err := provider.Objects.List(ctx, &list)
		for _, i := range list.Items {
			if !i.Status.State.Over() {
				return err
			}
		}
		return cmp.Or(err, errors.New("no ProviderInstruction"))
	}
}

// grants returns nil as soon as a provider has granted a ResourceSlice something.
func grants(provider *federation.Member, namespace, slice string) func(context.Context) error {
	return func(ctx context.Context) error {
		var copied authv1beta1.ResourceSlice
		err := there(provider, &copied, namespace, slice)(ctx)
		if err == nil && len(copied.Status.Resources) == 0 {
			err = errors.New("nothing is granted")
		}
		return err
	}
}

// at returns the moment that something is so.
func at(t *testing.T, what string, is func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last error
	for err := is(ctx); err != nil; err = is(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("after %s still not: %s: %v", patience, what, last)
		}
		last = err                       // of a try that had time
		time.Sleep(2 * time.Millisecond) // the steps are some 20 ms from each other
	}
}

// turns is how often a test goes through its steps: once, and one victim after the other is killed. With ALL_PAIRS,
// as in make soak, each victim is killed at each step.
func turns(victims []victim) int {
	if os.Getenv("ALL_PAIRS") != "" {
		return len(victims)
	}
	return 1
}

// victim is a process that is killed and starts again.
type victim struct {
	name        string
	kill, start func()
}

func (w *world) agentOf(t *testing.T, m *federation.Member) victim {
	return victim{"the agent of " + m.Name, func() { m.Agent(0).Kill() }, func() {
		if _, err := m.StartAgent(0); err != nil {
			t.Fatal(err)
		}
		if err := m.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
	}}
}

func (w *world) theBroker(t *testing.T) victim {
	return victim{"the broker", func() { w.Broker.Kill() }, func() {
		if err := w.StartBroker(t.Context()); err != nil {
			t.Fatal(err)
		}
	}}
}
