package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/journal/memory"
	"github.com/bourse-dev/bourse/internal/liqo/plugin/plugintest"
	"github.com/bourse-dev/bourse/internal/market"
)

// watched is milan's ceiling, over a Ledger in which rome's reservation has ended and oslo has one.
type watched struct {
	*ceiling
	t      *testing.T
	policy *policy
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(slog.DiscardHandler)
	x, err := exchange.Open(ctx, memory.New(), exchange.Options{Self: "milan", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{t: t, policy: &policy{changed: make(chan struct{}, 1), came: func() {}}}
	w.ceiling = newCeiling("milan", x, w.policy, log)
	w.again = 200 * time.Millisecond
	w.policy.came = w.tell
	ended := make(chan error, 2)
	go func() { ended <- x.Run(ctx) }()
	for consumer, cores := range map[string]int64{"rome": 1, "oslo": 3} {
		w.do(market.Admit{
			Assignment: api.Assignment{Reservation: "r-" + consumer, Generation: 1, Consumer: consumer, Provider: "milan", Pool: api.GeneralPool, Until: metav1.NewTime(x.Now().Go().Add(time.Hour))},
			Size:       market.Amounts{{Resource: "cpu", Value: 1000 * cores}}, Document: "signed", Acceptance: "yes", Adopt: true,
		})
	}
	w.ends("rome")
	go func() { ended <- w.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; <-ended })
	return w
}

func (w *watched) do(c market.Command) {
	w.t.Helper()
	if _, err := w.market.Do(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) ends(consumer string) {
	w.t.Helper()
	w.do(market.Release{ID: "r-" + consumer, By: "milan", Reason: api.ReasonRevokedByProvider})
	w.do(market.Free{ID: "r-" + consumer, Provider: "milan"})
}

func (w *watched) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("it never comes about that %s: %v, %+v", what, w.problems(), w.condition())
		}
	}
}

// answers says which condition the policy would show now.
func (w *watched) answers(reason string) func() bool {
	return func() bool { c := w.condition(); return c == nil && reason == "" || c != nil && c.Reason == reason }
}

// A plugin is told, also by an agent that has started again, of whoever has nothing here any more, and of nobody else; the doctor says who
// has more than it allows; and when the policy names another, only that one counts.
func TestCeiling(t *testing.T) {
	w := newWatched(t)
	if most, err := w.of(t.Context(), "rome"); most != nil || err != nil {
		t.Errorf("without a plugin: %v, %v", most, err)
	}
	first := plugintest.Start(t, plugintest.V06, "")
	first.Allow("oslo", map[string]string{"cpu": "2", "memory": "1Gi"})
	w.policy.set(&api.Sharing{ResourcePlugin: first.Address})
	w.until("it answers", w.answers("Answers"))
	w.until("it hears that rome has gone", func() bool { return fmt.Sprint(first.Removed()) == "[rome]" })
	above := func(says string) func() bool {
		return func() bool {
			all := w.problems()
			return says == "" && len(all) == 0 || len(all) == 1 && all[0].Code == health.AboveResourcePlugin.Code && strings.Contains(all[0].Detail, says)
		}
	}
	w.until("oslo has more than it may", above("it has 3 cpu, and the plugin allows 2 cpu"))
	first.Allow("oslo", map[string]string{"memory": "1Gi"})
	w.until("oslo may have nothing", above("it has 3 cpu, and the plugin allows none of it"))
	first.Allow("oslo", map[string]string{"cpu": "3"})
	w.until("oslo has no more than it may", above(""))
	if most, err := w.of(t.Context(), "oslo"); err != nil || most.Of("cpu") != 3000 {
		t.Errorf("oslo: %v, %v", most, err)
	}
	if most, err := w.of(t.Context(), "a stranger"); err != nil || most == nil || len(*most) > 0 {
		t.Errorf("one that it does not know: %v, %v", most, err)
	}

	second := plugintest.Start(t, plugintest.V09, "")
	second.Allow("oslo", map[string]string{"cpu": "9"})
	second.Mute()
	w.policy.set(&api.Sharing{ResourcePlugin: second.Address})
	w.until("the other answers", w.answers("Answers"))
	w.until("nobody listens to the first", func() bool { return first.Subscribers() == 0 })
	if most, err := w.of(t.Context(), "oslo"); err != nil || most.Of("cpu") != 9000 {
		t.Errorf("oslo, of another that tells nothing: %v, %v", most, err)
	}
	second.Allow("oslo", map[string]string{"cpu": "1"})
	w.until("it was asked again, though it tells nothing", above("the plugin allows 1 cpu"))
	w.ends("oslo")
	w.until("it hears that oslo has gone", func() bool { return fmt.Sprint(second.Removed()) == "[oslo]" })
	if removed := fmt.Sprint(first.Removed()); removed != "[rome]" {
		t.Errorf("the first was told of %s", removed)
	}

	w.policy.set(&api.Sharing{})
	w.until("nothing is known of any", w.answers(""))
	if all := w.problems(); len(all) > 0 {
		t.Errorf("without a plugin: %v", all)
	}
}

// While a plugin is away, or what it says makes no sense, nothing is allowed; why, its own people read, and the consumer does not.
func TestCeilingAway(t *testing.T) {
	w := newWatched(t)
	p := plugintest.Start(t, plugintest.V05, "")
	p.Allow("oslo", map[string]string{"cpu": "4"})
	w.policy.set(&api.Sharing{ResourcePlugin: p.Address})
	w.until("it answers", w.answers("Answers"))
	fails := func(why string) {
		t.Helper()
		_, err := w.of(t.Context(), "oslo")
		if api.CodeOf(err) != api.CodeForbidden || strings.Contains(err.Error(), p.Address) || strings.Contains(err.Error(), why) {
			t.Errorf("%s: the consumer reads %v", why, err)
		}
		w.until("it is known that it gives no answer", w.answers("NoAnswer"))
		all := w.problems()
		if len(all) == 0 || all[0].Code != health.ResourcePluginSilent.Code || !strings.Contains(all[0].Detail, why) || !strings.Contains(all[0].Subject, p.Address) {
			t.Errorf("%s: the doctor says %+v", why, all)
		}
	}
	p.Allow("oslo", map[string]string{"cpu": "a lot"})
	fails(`"a lot" is not a quantity`)
	p.Allow("oslo", map[string]string{"cpu": "4"})
	w.until("it answers again", w.answers("Answers"))
	p.Answer([]byte("\xff"))
	fails("makes no sense")
	p.Answer(nil) // of which it tells nobody
	w.until("it was asked again", w.answers("Answers"))
	p.Stop()
	fails(p.Address)
	back := plugintest.Start(t, plugintest.V05, p.Address)
	back.Allow("oslo", map[string]string{"cpu": "4"})
	w.until("it is back", w.answers("Answers"))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.of(stopped, "oslo"); err == nil || api.CodeOf(err) == api.CodeForbidden {
		t.Errorf("of an agent that stops: %v", err)
	}
}
