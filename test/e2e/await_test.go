package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// patience is how long anything may take on a machine that is busy with other things. An agent looks for its
// broker again after 45 s at the latest, and waits 60 s for the word of one that says nothing.
const patience = 3 * time.Minute

// eventually asks until there is no error any more.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	federation.Eventually(t, patience, what, ask)
}

// ask makes a ResourceRequest as its people do, and deletes it when the test ends.
func ask(t *testing.T, m *federation.Member, namespace, name string, spec api.Request) *api.ResourceRequest {
	t.Helper()
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: api.ResourceRequestSpec{Request: spec}}
	if err := m.Objects.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(t, m, r) })
	return r
}

// release deletes a request and waits until nobody counts it any more. One that is gone is none of
// its business.
func release(t *testing.T, m *federation.Member, r *api.ResourceRequest) {
	t.Helper()
	err := m.Objects.Delete(context.Background(), r.DeepCopy(), kube.Preconditions{UID: &r.UID})
	if kube.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	if err != nil || r.Status.Reservation == "" {
		return
	}
	eventually(t, r.Status.Reservation+" is over", func(ctx context.Context) error {
		known, err := m.People(0).Reservation(ctx, r.Status.Reservation)
		if err == nil && !known.Payload.State.Over() {
			err = fmt.Errorf("it is %s", known.Payload.State)
		}
		return err
	})
}

// becomes waits until a request is in a state, and takes over what it says.
func becomes(t *testing.T, m *federation.Member, r *api.ResourceRequest, state api.State) {
	t.Helper()
	eventually(t, r.Name+" is "+string(state), func(ctx context.Context) error {
		if err := m.Objects.Get(ctx, kube.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.State != state {
			return fmt.Errorf("it is %q: %s", r.Status.State, r.Status.Message)
		}
		return nil
	})
}

// brokered is what the broker says of a reservation to one of its parties.
func brokered(ctx context.Context, party *federation.Member, reservation string) (api.State, error) {
	r, err := party.People(0).Reservation(ctx, reservation)
	return r.Payload.State, err
}

// provided is the provider's instruction of a reservation.
func provided(ctx context.Context, m *federation.Member, reservation string) (*api.ProviderInstruction, error) {
	var i api.ProviderInstruction
	return &i, m.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: reservation}, &i)
}
