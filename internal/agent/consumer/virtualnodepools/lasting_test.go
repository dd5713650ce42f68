package virtualnodepools

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// boundAs makes the reservation of a request Active under another ID.
func (d *desk) boundAs(id string, r *api.ResourceRequest, change func(*market.Reservation)) string {
	d.t.Helper()
	return d.bound(r, func(note *market.Reservation) {
		note.ID, note.Until = id, market.At(d.clock.Now().Add(24*time.Hour))
		if change != nil {
			change(note)
		}
	})
}

// generations returns the requests of the pool: the first, and the one that succeeds it; nil: none.
func (d *desk) generations() (first, next *api.ResourceRequest) {
	for _, r := range d.requests() {
		if r.Annotations[vnp.SucceedsAnnotation] == "" {
			first = &r
		} else {
			next = &r
		}
	}
	return first, next
}

// A contract that cannot last longer, or whose extension was refused, gets another one beside it, of the newest
// offer within maxPrice. Once that is bound, the first one ends.
func TestReservesAgainWhatCannotBeExtended(t *testing.T) {
	for why, change := range map[string]func(d *desk, r *market.Reservation){
		"its contract is over": func(d *desk, r *market.Reservation) {
			d.buys(1, func(o *api.OfferSpec) { o.Plans[0].MaxDuration = &metav1.Duration{Duration: 25 * time.Hour} })(r)
		},
		"it was refused": func(_ *desk, r *market.Reservation) {
			r.Change = &market.Change{Generation: 2, Size: r.Size, Until: r.Until + 3_600_000, Reason: api.ReasonPolicy}
		},
	} {
		t.Run(why, func(t *testing.T) {
			d := newDesk(t)
			pool := d.pool("burst")
			d.edit(pool, func(s *api.VirtualNodePoolSpec) {
				s.MaxPrice = &api.Price{Amount: "1", Currency: "EUR", Period: api.PeriodHour}
			})
			d.pods(1, "2")
			first := d.child(pool, "milan", "2")
			d.bind(d.bound(first, func(r *market.Reservation) { change(d, r) }))
			d.clock.SetTime(d.clock.Now().Add(11 * time.Hour))
			if d.look("burst"); len(d.requests()) != 1 {
				t.Fatal("it does so before half is left")
			}
			d.clock.SetTime(d.clock.Now().Add(time.Hour))
			d.look("burst")
			d.look("burst")
			old, next := d.generations()
			if old == nil || next == nil || next.Spec.Target != "milan" || next.Spec.Resources.Cpu().Value() != 2 ||
				next.Spec.MaxPrice.Amount != "1" || next.Name == old.Name || len(d.requests()) != 2 {
				t.Fatalf("it has %+v", d.requests())
			}
			node := d.boundAs("again", next, d.buys(2, nil))
			p := d.look("burst")
			if old, next := d.generations(); old != nil || next == nil {
				t.Fatalf("the first one stays: %+v", d.requests())
			}
			got := p.Status.Providers
			if len(got) != 1 || got[0].Node != node || got[0].State != "Ready" || got[0].Until.Time.Before(d.clock.Now().Add(23*time.Hour)) {
				t.Errorf("it shows %+v", got)
			}
			d.look("burst")
			if got := d.requests(); len(got) != 1 || got[0].Annotations[vnp.DrainAnnotation] != "" {
				t.Errorf("then it has %+v", got)
			}
		})
	}
}

// A successor that is refused goes; the first one stays, and the provider is not asked for a while.
func TestASuccessorThatIsRefused(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "2")
	d.bind(d.bound(d.child(pool, "milan", "2"), func(r *market.Reservation) {
		r.Change = &market.Change{Generation: 2, Size: r.Size, Until: r.Until + 3_600_000, Reason: api.ReasonPolicy}
	}))
	d.clock.SetTime(d.clock.Now().Add(13 * time.Hour))
	d.look("burst")
	_, next := d.generations()
	next.Status.State = api.Rejected
	if err := d.Status().Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.look("burst")
	}
	if old, next := d.generations(); old == nil || next != nil {
		t.Fatalf("it has %+v", d.requests())
	}
	d.clock.SetTime(d.clock.Now().Add(firstPause))
	d.look("burst")
	if _, next := d.generations(); next == nil {
		t.Error("it is never asked again")
	}
}

// What is not extended is a condition, and an Event each time that less than a half, a quarter and an eighth of
// its time is left.
func TestTellsWhatIsNotExtended(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "2")
	d.bind(d.bound(d.child(pool, "milan", "2"), nil))
	d.away = true
	for range 24 * 6 {
		d.look("burst")
		d.clock.SetTime(d.clock.Now().Add(10 * time.Minute))
	}
	close(d.events.Events)
	var got []string
	for event := range d.events.Events {
		if _, left, ok := strings.Cut(event, "Warning Extended NotExtended: not extended yet: milan (less than "); ok {
			got = append(got, strings.TrimSuffix(left, " of its time is left)"))
		}
	}
	if strings.Join(got, ", ") != "half, a quarter, an eighth" {
		t.Errorf("it tells %q", got)
	}
}

// A virtual node that somebody deletes, and that is made again, does not end its reservation. Its provider is
// dead once the node was away for three minutes.
func TestANodeThatIsMadeAgain(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(1, "2")
	name := d.bound(d.child(pool, "milan", "2"), nil)
	d.bind(name)
	d.look("burst")
	is := func(after time.Duration, want string) {
		t.Helper()
		d.clock.SetTime(d.clock.Now().Add(after))
		if got := d.look("burst").Status.Providers; len(got) != 1 || got[0].State != want {
			t.Fatalf("want %s, it shows %+v", want, got)
		}
	}
	is(time.Hour, "Ready")
	node := &corev1.Node{}
	if err := errors.Join(d.Get(t.Context(), client.ObjectKey{Name: name}, node), d.Delete(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	is(time.Minute, "NotReady")
	is(2*time.Minute, "NotReady")
	again := node.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	d.create(again)
	again.Status = node.Status
	if err := d.Status().Update(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	is(0, "Ready")
	if err := d.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	is(time.Hour, "NotReady")
	is(3*time.Minute, "Dead")
}
