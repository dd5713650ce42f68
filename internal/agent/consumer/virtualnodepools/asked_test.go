package virtualnodepools

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// A provider that refused to give more is asked to take back some, also while it is not asked for more.
func TestShrinksAfterRefusedGrowth(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "1")
	first := d.child(pool, "milan", "8")
	more, _ := amounts.ParseRequest("", resources("12"))
	node := d.bound(first, func(r *market.Reservation) {
		r.Change = &market.Change{Generation: 2, Size: more, Until: r.Until, Reason: api.ReasonNoAnswer}
		r.Changed = d.began
	})
	d.bind(node)
	first.Spec.Resources = resources("12")
	if err := d.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	d.look("burst") // it was refused
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Max = resources("4") })
	d.clock.SetTime(d.clock.Now().Add(time.Minute))
	d.look("burst")
	if got := d.requests()[0].Annotations[vnp.WishAnnotation]; got == "" {
		t.Error("max is 4, it has 8, and wishes for no less")
	}
	d.lower(node, resources("1"))
	d.look("burst")
	if got := d.requests()[0].Spec.Resources.Cpu().Value(); got != 1 {
		t.Errorf("one CPU is needed, and it asks for %d", got)
	}
}

// together is a broker whose answers come once all were asked for.
type together struct {
	*desk
	all *sync.WaitGroup
}

func (d together) Latency(ctx context.Context, _ string) (time.Duration, error) {
	d.all.Done()
	asked := make(chan struct{})
	go func() { d.all.Wait(); close(asked) }()
	select {
	case <-asked:
		return 0, nil
	case <-time.After(20 * time.Second):
		return 0, ctx.Err()
	}
}

// Providers are measured at once: one that does not answer does not hold up the pools for the time of all of them.
func TestMeasuresAtOnce(t *testing.T) {
	d, all := newDesk(t), &sync.WaitGroup{}
	all.Add(2)
	d.Controller.options.Brokers = together{d, all}
	d.edit(d.pool("burst"), func(s *api.VirtualNodePoolSpec) { s.MaxLatency = &metav1.Duration{Duration: time.Second} })
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}, {Cluster: "oslo", Resources: resources("50")}}
	d.pods(2, "2")
	began := time.Now()
	if d.look("burst"); len(d.requests()) != 1 || time.Since(began) > 15*time.Second {
		t.Errorf("after %s it makes %+v", time.Since(began), d.requests())
	}
}

// A hold that ended while this agent was away does not count against its provider: it is asked again at once. One
// that failed there does.
func TestAHoldThatEndedUnbound(t *testing.T) {
	for state, again := range map[api.State]int{api.Expired: 1, api.Failed: 0} {
		d := newDesk(t)
		d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
		d.pods(1, "2")
		d.bound(d.child(d.pool("burst"), "milan", "2"), func(r *market.Reservation) { r.State = state })
		for range 3 {
			d.look("burst")
		}
		if n := len(d.requests()); n != again {
			t.Errorf("%s: then there are %d requests, want %d", state, n, again)
		}
	}
}
