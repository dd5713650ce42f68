package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/lab"
)

// The provider's API server is away, for a moment and for a minute: what runs goes on, what was
// held before is done when it is back, and what is asked for meanwhile learns at once that it
// cannot be reached.
func TestTheProvidersAPIServerIsAway(t *testing.T) {
	w := start(t)
	rome, milan := w.agentOf(t, w.rome), w.agentOf(t, w.milan)
	back := func() {
		t.Helper()
		if err := w.milan.Cluster.Start(context.Background(), lab.APIServer); err != nil {
			t.Fatal(err)
		}
	}
	forget := func() { // an agent believes for a minute what it knows of an API server
		t.Helper()
		rome.kill()
		rome.start()
	}
	a := w.ask(t, w.rome, w.milan, "before", amounts("1", "1Gi"))
	a.becomes(api.Active)
	a.run(2, "100m", "64Mi")
	a.running(w.milan, 2)
	before := podsIn(t, w.milan, "before-rome")

	forget()
	milan.kill()
	held := w.ask(t, w.rome, w.milan, "promised", amounts("2", "2Gi"))
	held.becomes(api.Held)
	w.milan.Cluster.Kill(lab.APIServer)
	t.Cleanup(back)
	time.Sleep(time.Second) // well within what a hold lasts
	back()
	milan.start()
	held.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "3")

	w.milan.Cluster.Kill(lab.APIServer)
	time.Sleep(45 * time.Second)
	forget()
	meanwhile := w.ask(t, w.rome, w.milan, "meanwhile", amounts("2", "2Gi"))
	eventually(t, "what is asked for meanwhile learns why not", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(meanwhile.request), meanwhile.request)
		if s := meanwhile.request.Status; err == nil && (!s.State.Over() ||
			!strings.Contains(s.Message, string(api.CodeUnreachable))) {
			err = fmt.Errorf("it is %s: %s", s.State, s.Message)
		}
		return err
	})
	time.Sleep(15 * time.Second)
	back()
	forget()
	w.granted(t, w.rome, w.milan, "3")
	a.running(w.milan, 2)
	if after := podsIn(t, w.milan, "before-rome"); !slices.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
	held.release()
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// Liqo's controller manager looks at a slice only when its generation changes: one that took the
// place of another of the same name while it did not watch has no answer, as this one has when its
// status is emptied. The agent has Liqo look again.
func TestASliceThatLiqoOverlooked(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "overlooked", amounts("1", "1Gi"))
	a.becomes(api.Active)
	var slice authv1beta1.ResourceSlice
	at := kube.ObjectKey{Namespace: "liqo-tenant-rome", Name: market.SliceName("rome", "milan", api.GeneralPool)}
	if err := w.milan.Objects.Get(t.Context(), at, &slice); err != nil {
		t.Fatal(err)
	}
	before := slice.DeepCopy()
	slice.Status = authv1beta1.ResourceSliceStatus{}
	if err := w.milan.Objects.Status().Patch(t.Context(), &slice, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Liqo answers it", func(ctx context.Context) error {
		if err := w.milan.Objects.Get(ctx, at, &slice); err != nil {
			return err
		}
		for _, c := range slice.Status.Conditions {
			if c.Type == authv1beta1.ResourceSliceConditionTypeAuthentication &&
				c.Status == authv1beta1.ResourceSliceConditionAccepted {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", slice.Status.Conditions)
	})
	w.granted(t, w.rome, w.milan, "1")
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}
