package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A consumer whose etcd is put back to before a request knows neither the request nor the
// reservation any more. That releases nothing; a person can.
func TestConsumersEtcdRestored(t *testing.T) {
	w := start(t)
	n := w.now(t, w.paris, "cpu")
	snapshot, err := w.rome.Cluster.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := ask(t, w.rome, "default", "forgotten", api.Request{Resources: cpu("2"), Target: "paris"})
	becomes(t, w.rome, r, api.Reserved)
	w.rome.Agent(0).Expect()
	if err := w.rome.Cluster.Restore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	next := ask(t, w.rome, "default", "next", api.Request{Resources: cpu("1"), Target: "paris"})
	startsAgain(t, w.rome)
	becomes(t, w.rome, next, api.Reserved) // by now it has seen all that there is

	if state, err := brokered(t.Context(), w.rome, r.Status.Reservation); err != nil || state != api.Reserved {
		t.Errorf("the broker has the reservation as %q (%v), want Reserved", state, err)
	}
	if i, err := provided(t.Context(), w.paris, r.Status.Reservation); err != nil || i.Status.State != api.Reserved {
		t.Errorf("the provider has the reservation as %q (%v), want Reserved", i.Status.State, err)
	}
	w.shows(t, w.paris, "cpu", n.reserve(3000))
	diagnosis, err := w.rome.People(0).Diagnose(t.Context())
	if err != nil || !slices.ContainsFunc(diagnosis.Problems, func(p api.Problem) bool {
		return p.Code == health.WithoutRequest.Code && p.Subject == "reservation "+r.Status.Reservation
	}) {
		t.Errorf("the doctor does not name the reservation: %+v, %v", diagnosis, err)
	}
	if err := w.rome.People(0).EndUnknown(t.Context(), r.Status.Reservation); err != nil {
		t.Error(err)
	}
	w.shows(t, w.paris, "cpu", n.reserve(1000))
}

// A provider whose etcd is put back to before it accepted a reservation takes it back: its own
// signature says that it did.
func TestProvidersEtcdRestored(t *testing.T) {
	w := start(t)
	n := w.now(t, w.paris, "cpu")
	snapshot, err := w.paris.Cluster.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := ask(t, w.rome, "default", "adopted", api.Request{Resources: cpu("2"), Target: "paris"})
	becomes(t, w.rome, r, api.Reserved)
	w.paris.Agent(0).Expect()
	if err := w.paris.Cluster.Restore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	next := ask(t, w.rome, "default", "next", api.Request{Resources: cpu("1"), Target: "paris"})
	startsAgain(t, w.paris)
	becomes(t, w.rome, next, api.Reserved)
	eventually(t, "the provider's instruction is back", func(ctx context.Context) error {
		i, err := provided(ctx, w.paris, r.Status.Reservation)
		if err == nil && i.Status.State != api.Reserved {
			err = fmt.Errorf("it is %q", i.Status.State)
		}
		return err
	})
	w.shows(t, w.paris, "cpu", n.reserve(3000))
	becomes(t, w.rome, r, api.Reserved)
}

// startsAgain waits until an agent has noticed that its cluster's state was put back, and ended,
// and starts it as a Deployment does.
func startsAgain(t *testing.T, m *federation.Member) {
	t.Helper()
	select {
	case <-m.Agent(0).Done():
	case <-time.After(patience):
		t.Fatalf("the agent of %s goes on after its cluster's state was put back", m.Name)
	}
	if !strings.Contains(m.Agent(0).Log(), "an older state of the cluster was put back") {
		t.Errorf("the agent of %s does not say why it ended", m.Name)
	}
	if _, err := m.StartAgent(0); err != nil {
		t.Fatal(err)
	}
}
