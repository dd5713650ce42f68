package server_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A broker that has just started rejects no request only because a provider has not advertised again: each kind
// of request is to be asked again, or waits. After the first lease a provider that is still silent is away.
func TestTheFirstMinuteAfterAStart(t *testing.T) {
	log, clock := memorytest.New(), transporttest.NewClock()
	kept := ""
	t.Run("before", func(t *testing.T) {
		f := servertest.Start(t, servertest.Options{Journal: log, Clock: clock})
		rome, milan := f.Join("rome"), f.Join("milan")
		milan.Advertise("8")
		offer := milan.SignOffer("web", 1, transporttest.WebOffer("0.10"))
		if err := milan.PublishOffer(t.Context(), "milan", "web", offer); err != nil {
			t.Fatal(err)
		}
		r, err := rome.Reserve(t.Context(), "kept", purchase(nil))
		if err != nil {
			t.Fatal(err)
		}
		kept = r.ID
	})
	clock.Move(time.Second, clock.Wall)
	f := servertest.Start(t, servertest.Options{Journal: log, Clock: clock})
	asked := func(change func(*api.Request)) api.Request {
		r := transporttest.Request("2")
		change(&r)
		return r
	}
	kinds := map[string]api.Request{
		"plain":  asked(func(*api.Request) {}),
		"target": asked(func(r *api.Request) { r.Target = "milan" }),
		"split":  asked(func(r *api.Request) { r.Split = 2 }),
		"maxPrice": asked(func(r *api.Request) {
			r.MaxPrice = &api.Price{Amount: "9", Currency: "EUR", Period: api.PeriodHour}
		}),
		"purchase": purchase(nil),
	}
	ask := func(key string, r api.Request) (market.Outcome, error) {
		return f.Server.Reserve(t.Context(), "rome", key, api.ReservationCreate{Request: r})
	}
	for name, r := range kinds {
		if out, err := ask(name, r); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%s: %s, %v", name, stateOf(out), err)
		}
	}
	if out, err := ask("kept", purchase(nil)); err != nil || out.Reservation.ID != kept {
		t.Errorf("a repeat of a purchase: %s, %v", stateOf(out), err)
	}
	waits := asked(func(r *api.Request) { r.Wait = &metav1.Duration{Duration: time.Hour} })
	if out, err := ask("waits", waits); err != nil || stateOf(out) != api.Pending {
		t.Errorf("a request that waits: %s, %v", stateOf(out), err)
	}

	clock.Move(market.Lease, func() time.Time { return f.Exchange.Now().Go() })
	out, err := ask("late", kinds["plain"])
	if err != nil || stateOf(out) != api.Rejected {
		t.Errorf("milan stays silent: %s, %v", stateOf(out), err)
	}
	measured, err := market.Measure(transporttest.Measurement(9, "16"))
	if err == nil {
		err = f.Exchange.Observe(t.Context(), "milan", measured, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range kinds { // with the keys of the first time
		if out, err := ask(name, r); err != nil || stateOf(out) != api.Held {
			t.Errorf("%s, when milan is back: %s, %v", name, stateOf(out), err)
		}
	}
}

func stateOf(out market.Outcome) api.State {
	if out.Reservation == nil {
		return ""
	}
	return out.Reservation.State
}
