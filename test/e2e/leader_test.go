package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Of two agents of milan one leads. When it is killed the other takes over, with the same keys and
// the same books. A user who asked the first by a session is answered by the other within 30 s, and does nothing for it.
func TestSecondReplicaTakesOver(t *testing.T) {
	w := start(t)
	before := ask(t, w.rome, "default", "before-leader-died", api.Request{Resources: cpu("2"), Target: "milan"})
	becomes(t, w.rome, before, api.Reserved)
	n := w.now(t, w.milan, "cpu")
	leader := leads(t, w)
	makeNamespace(t, w.milan, "follows")
	bind(t, w.milan, "leo", "bourse-requester", "follows")
	user := asks(t, w.milan, "leo", "follows")
	eventually(t, "the role is known", func(ctx context.Context) error { _, err := user.Status(ctx); return err })
	w.milan.Agent(leader).Kill()
	begin := time.Now()
	if s, err := user.Status(t.Context()); err != nil || s.Cluster != "milan" {
		t.Errorf("after its agent died the user is answered %+v, %v", s, err)
	}
	t.Logf("the next agent answered after %s", time.Since(begin).Round(time.Millisecond))
	after := ask(t, w.rome, "default", "after-leader-died", api.Request{Resources: cpu("2"), Target: "milan"})
	becomes(t, w.rome, after, api.Reserved)
	if next := leads(t, w); next == leader {
		t.Errorf("replica %d leads although it is dead", next)
	}
	w.shows(t, w.milan, "cpu", n.reserve(2000))
	if i, err := provided(t.Context(), w.milan, before.Status.Reservation); err != nil || i.Status.State != api.Reserved {
		t.Errorf("the provider's instruction is %q (%v), want Reserved", i.Status.State, err)
	}
	if _, err := w.milan.StartAgent(leader); err != nil {
		t.Fatal(err)
	}
}

// leads finds the replica of milan that leads: only it serves its socket.
func leads(t *testing.T, w *world) (leader int) {
	t.Helper()
	eventually(t, "an agent of milan leads", func(ctx context.Context) error {
		_, first := w.milan.People(0).Status(ctx)
		_, second := w.milan.People(1).Status(ctx)
		if leader = 0; first != nil {
			leader = 1
		}
		if first != nil && second != nil {
			return errors.Join(first, second)
		}
		if first == nil && second == nil {
			t.Error("both lead")
		}
		return nil
	})
	return leader
}
