package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// After any process is killed at any time: each request is reserved once, released capacity is free, and the accounts
// of all sides are the same.
func TestKilledInTheMiddle(t *testing.T) {
	w := start(t)
	atMilan, atParis := w.now(t, w.milan, "cpu"), w.now(t, w.paris, "cpu")
	victims := []struct {
		name  string
		kill  func()
		start func() error
	}{
		{"the broker", func() { w.Broker.Kill() }, func() error { return w.StartBroker(t.Context()) }},
		{"the consumer's agent", func() { w.rome.Agent(0).Kill() },
			func() error { _, err := w.rome.StartAgent(0); return err }},
		{"the provider's agent", func() { w.paris.Agent(0).Kill() },
			func() error { _, err := w.paris.StartAgent(0); return err }},
	}
	for i, victim := range victims {
		var requests []*api.ResourceRequest
		for n := range 6 {
			requests = append(requests, ask(t, w.rome, "default", fmt.Sprintf("killed-%d-%d", i, n), api.Request{
				Resources: cpu("2"), Target: []string{"milan", "paris"}[n%2],
			}))
		}
		becomes(t, w.rome, requests[0], api.Reserved) // the others are at any point before, or there too
		victim.kill()
		if err := victim.start(); err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			becomes(t, w.rome, r, api.Reserved)
		}
		w.shows(t, w.milan, "cpu", atMilan.reserve(6000))
		w.shows(t, w.paris, "cpu", atParis.reserve(6000))

		for n, r := range requests {
			if err := w.rome.Objects.Delete(t.Context(), r.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if n == 2 {
				victim.kill()
			}
		}
		if err := victim.start(); err != nil {
			t.Fatal(err)
		}
		w.shows(t, w.milan, "cpu", atMilan)
		w.shows(t, w.paris, "cpu", atParis)
		if t.Failed() {
			t.Fatalf("that was with %s killed", victim.name)
		}
	}
}

// Without the broker the agents start, with the token that they spent long ago, and keep what they
// have. What is asked meanwhile waits; what is released, its provider gives back by itself, and the
// broker hears of it when it is back.
func TestRestartWithTheBrokerAway(t *testing.T) {
	w := start(t)
	kept := ask(t, w.rome, "default", "kept", api.Request{Resources: cpu("3"), Target: "paris"})
	dropped := ask(t, w.rome, "default", "dropped", api.Request{Resources: cpu("5"), Target: "paris"})
	becomes(t, w.rome, kept, api.Reserved)
	becomes(t, w.rome, dropped, api.Reserved)
	spent(t, w, "rome")

	w.Broker.Kill()
	for _, m := range []*federation.Member{w.rome, w.paris} {
		m.Agent(0).Kill()
		if _, err := m.StartAgent(0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the agent of "+m.Name+" says that the broker is away", func(ctx context.Context) error {
			status, err := m.People(0).Status(ctx)
			if err == nil && (status.Connected || status.Problem == "") {
				err = fmt.Errorf("it says %+v", status)
			}
			return err
		})
	}
	if err := w.rome.Objects.Delete(t.Context(), dropped.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	late := ask(t, w.rome, "default", "late", api.Request{Resources: cpu("2"), Target: "paris"})
	eventually(t, "the new request says that the broker is away", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(late), late)
		if err == nil && !strings.Contains(late.Status.Message, "Unavailable") {
			err = fmt.Errorf("it says %q", late.Status.Message)
		}
		return err
	})
	eventually(t, "the provider has given back what was released", func(ctx context.Context) error {
		i, err := provided(ctx, w.paris, dropped.Status.Reservation)
		if err == nil {
			return fmt.Errorf("its instruction is still there, %q", i.Status.State)
		}
		return kube.IgnoreNotFound(err)
	})
	// absence is no instruction
	if i, err := provided(t.Context(), w.paris, kept.Status.Reservation); err != nil || i.Status.State != api.Reserved {
		t.Errorf("the provider's instruction of kept is %q (%v), want Reserved", i.Status.State, err)
	}

	if err := w.StartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	becomes(t, w.rome, late, api.Reserved)
	becomes(t, w.rome, kept, api.Reserved)
	eventually(t, "the broker has heard of the release", func(ctx context.Context) error {
		state, err := brokered(ctx, w.rome, dropped.Status.Reservation)
		if err == nil && state != api.Released {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
}

// spent checks that a cluster's join token was used up.
func spent(t *testing.T, w *world, cluster string) {
	t.Helper()
	tokens, err := w.Operator.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if token.Payload.Cluster == cluster && token.Payload.UsedBy == cluster {
			return
		}
	}
	t.Errorf("no token of %s was used: %+v", cluster, tokens)
}
