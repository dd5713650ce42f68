package virtualnodepools

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// An ask that led to nothing is repeated once the broker says that there is more, not before, and not often.
func TestAsksAgainOnceThereIsMore(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	d.pods(2, "2")
	looks := func(after time.Duration, asks int, why string) {
		t.Helper()
		d.asked = nil
		d.clock.SetTime(d.clock.Now().Add(after))
		d.look("burst")
		if len(d.asked) != asks {
			t.Errorf("%s: it asks %d times", why, len(d.asked))
		}
	}
	looks(0, 2, "at first") // for all, and for one
	looks(time.Minute, 0, "nothing is new")
	d.grown++
	looks(0, 2, "there is more")
	d.grown++
	looks(time.Second, 0, "there is more again, soon after")
	looks(10*time.Second, 2, "10 s later")
	d.fits = []api.Fit{{Cluster: "milan", Resources: resources("50")}}
	d.grown++
	looks(10*time.Second, 1, "there is enough")
	if len(d.requests()) != 1 {
		t.Error("it does not grow")
	}
}

// If nobody has enough, or the broker does not answer, it asks again after a second, and then more and more rarely.
func TestAsksMoreAndMoreRarely(t *testing.T) {
	for _, failed := range []error{nil, api.Errorf(api.CodeUnavailable, "it is busy")} {
		d := newDesk(t)
		d.failed = failed
		d.pool("burst")
		d.pods(2, "2")
		begun := d.clock.Now()
		var at []time.Duration
		for range 60 {
			before := len(d.asked)
			if failed == nil {
				d.grown++
			}
			after, err := d.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "burst"}})
			if err != nil || after.RequeueAfter < 100*time.Millisecond {
				t.Fatalf("it looks again after %s, %v", after.RequeueAfter, err)
			}
			if len(d.asked) > before {
				at = append(at, d.clock.Now().Sub(begun))
			}
			d.clock.SetTime(d.clock.Now().Add(500 * time.Millisecond))
		}
		if got := fmt.Sprint(at); got != "[0s 1s 3s 7s 15s 25s]" {
			t.Errorf("with the error %v it asks at %s", failed, got)
		}
	}
}

// Many sizes of pods that fit nowhere are not asked for again and again while nothing is new: all are remembered.
// Once a broker says that there is more, all are asked for again.
func TestManySizesThatFitNowhere(t *testing.T) {
	for _, sizes := range []int{100, 2 * maxAnswers, 2000} {
		var a answers
		now, grown := time.Unix(1e9, 0), int64(0)
		asksIn := func(long time.Duration) (asks int) {
			for end := now.Add(long); now.Before(end); now = now.Add(2 * time.Second) {
				a.renew(grown, now)
				for i, left := 0, 32; i < sizes && left > 0; i++ { // as many as a plan asks at most
					key := askKey{byte(i), byte(i >> 8)}
					if _, known := a.by[key]; !known {
						a.keep(key, nothing)
						asks, left = asks+1, left-1
					}
				}
			}
			return asks
		}
		if got := asksIn(4 * time.Minute); got != sizes {
			t.Errorf("%d sizes: it asks %d times in the first 4 minutes", sizes, got)
		}
		if got, most := asksIn(time.Hour), 60*60+sizes; got > most {
			t.Errorf("%d sizes: it asks %d times in an hour, want at most %d", sizes, got, most)
		}
		a.renew(grown, now)
		now, grown = now.Add(askEvery), grown+1
		if got := asksIn(3 * time.Minute); got < sizes {
			t.Errorf("%d sizes, and there is more: it asks %d times", sizes, got)
		}
	}
}

// A list of answers is bounded, and one that may be another soon is not kept beyond a few.
func TestAnswersAreBounded(t *testing.T) {
	a := answers{by: map[askKey]vnp.Answer{}}
	key := func(i int) askKey { return askKey{byte(i), byte(i >> 8)} }
	for i := range 3 * maxNothing / 2 {
		a.keep(key(i), nothing)
	}
	if len(a.by) != maxNothing {
		t.Errorf("it keeps %d answers", len(a.by))
	}
	for name, answer := range map[string]vnp.Answer{"all are too far": {Fits: &api.Fits{}, TooFar: true},
		"there is room": {Fits: &api.Fits{Clusters: []api.Fit{{Cluster: "milan"}}}, Named: []string{"milan"}}} {
		if a.keep(key(-1), answer); a.by[key(-1)].Fits != nil {
			t.Errorf("%s: it keeps %+v", name, answer)
		}
	}
	for name, answer := range map[string]vnp.Answer{"none came": {Why: "long"},
		"nothing": {Fits: &api.Fits{Qualified: 3}, Why: "long"}} {
		a.keep(key(-1), answer)
		if is, known := a.by[key(-1)]; !known || is.Why != "" || (is.Fits == nil) != (answer.Fits == nil) {
			t.Errorf("%s: it keeps %+v, %v", name, is, known)
		}
	}
}

// A reservation that ends makes it look at the pools again: its provider may serve them.
func TestLooksAgainWhenAReservationEnds(t *testing.T) {
	d := newDesk(t)
	d.pool("burst")
	d.look("burst")
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	if err := d.changed.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	other := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "own"}}
	other.Spec.Target, other.Spec.Resources = "oslo", resources("1")
	d.create(other)
	d.bound(other, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.followLedger(ctx) }()
	d.bound(other, func(r *market.Reservation) { r.State = api.Released })
	if request, _ := queue.Get(); request.Name != "burst" {
		t.Errorf("it looks at %s", request.Name)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// With more providers to avoid than a request excludes, those that an answer names are excluded first: others may
// not be there.
func TestMoreProvidersToAvoidThanARequestExcludes(t *testing.T) {
	d := newDesk(t)
	pool := d.pool("burst")
	d.pods(2, "2")
	var exclude []string
	for i := range 100 {
		name := fmt.Sprintf("p-%02d", i)
		if exclude = append(exclude, name); i >= 70 {
			d.fits = append(d.fits, api.Fit{Cluster: name, Resources: resources("50")})
		}
	}
	d.fits = append(d.fits, api.Fit{Cluster: "rome-2", Resources: resources("50")})
	d.edit(pool, func(s *api.VirtualNodePoolSpec) { s.Providers.Exclude = exclude })
	d.look("burst")
	if got := d.requests(); len(got) != 1 || got[0].Spec.Target != "rome-2" {
		t.Errorf("it reserves %+v", got)
	}
}
