package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// Instructions show the Ledgers. An edit of the consumer's lasts until its reservation changes, and nobody edits the
// provider's.
func TestInstructionsAreOnlyAPicture(t *testing.T) {
	editInstructions(t, start(t))
}

func editInstructions(t *testing.T, w *world) {
	t.Helper()
	n := w.now(t, w.paris, "cpu")
	r := ask(t, w.rome, "default", "edited", api.Request{Resources: cpu("2"), Target: "paris"})
	becomes(t, w.rome, r, api.Reserved)
	bothInstructed(t, w, r)
	theirs, err := provided(t.Context(), w.paris, r.Status.Reservation)
	if err != nil {
		t.Fatal(err)
	}
	ours := &api.ReservationInstruction{}
	ours.Namespace, ours.Name = r.Namespace, r.Status.Reservation
	edit := kube.RawPatch("application/merge-patch+json", []byte(`{"spec": {"resources": {"cpu": "1"}}}`))
	if err := w.paris.Objects.Patch(t.Context(), theirs, edit); !apierrors.IsForbidden(err) { // policy bourse-acts
		t.Errorf("an admin changes what the provider shows: %v", err)
	}
	if err := w.rome.Objects.Patch(t.Context(), ours, edit); err != nil {
		t.Fatal(err)
	}
	label := kube.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"look": "again"}}}`))
	if err := w.rome.Objects.Patch(t.Context(), r, label); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the consumer's instruction says again what is reserved", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(ours), ours)
		if diff := cmp.Diff(cpu("2"), ours.Spec.Resources); err == nil && diff != "" {
			err = fmt.Errorf("-want +got:\n%s", diff)
		}
		return err
	})
	w.shows(t, w.paris, "cpu", n.reserve(2000))
	release(t, w.rome, r)
	w.shows(t, w.paris, "cpu", n)
}
