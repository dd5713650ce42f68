package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A provider that cordons a node may have promised more than it still has: that shows, nothing new
// is placed there, and nothing that was promised is taken back.
func TestCordonOvercommits(t *testing.T) {
	w := start(t)
	r := ask(t, w.rome, "default", "before-cordon", api.Request{Resources: cpu("20"), Target: "paris"})
	becomes(t, w.rome, r, api.Reserved)
	n := w.now(t, w.paris, "cpu")

	cordon(t, w.paris, "paris-1", true)
	t.Cleanup(func() { cordon(t, w.paris, "paris-1", false) })
	if short := w.shows(t, w.paris, "cpu", n.have(-16000)); short.Available != -4000 {
		t.Errorf("%d thousandths are available, want -4000", short.Available)
	}
	overcommitted(t, w, true)

	late := ask(t, w.rome, "default", "after-cordon", api.Request{Resources: cpu("1"), Target: "paris"})
	becomes(t, w.rome, late, api.Rejected)
	becomes(t, w.rome, r, api.Reserved)
	if i, err := provided(t.Context(), w.paris, r.Status.Reservation); err != nil || i.Status.State != api.Reserved {
		t.Errorf("the provider's instruction is %q (%v), want Reserved", i.Status.State, err)
	}

	cordon(t, w.paris, "paris-1", false)
	w.shows(t, w.paris, "cpu", n)
	overcommitted(t, w, false)
}

func overcommitted(t *testing.T, w *world, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("paris shows as overcommitted: %v", want), func(ctx context.Context) error {
		c, err := w.rome.People(0).Cluster(ctx, "paris")
		if err == nil && c.Payload.Overcommitted != want {
			err = fmt.Errorf("it does not")
		}
		return err
	})
}

func cordon(t *testing.T, m *federation.Member, name string, yes bool) {
	t.Helper()
	var n corev1.Node
	if err := m.Objects.Get(context.Background(), kube.ObjectKey{Name: name}, &n); err != nil {
		t.Fatal(err)
	}
	before := n.DeepCopy()
	n.Spec.Unschedulable = yes
	if err := m.Objects.Patch(context.Background(), &n, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
