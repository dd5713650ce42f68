package reservations

import (
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// What this cluster signed and lost is found and ended at the broker that shows it. What others signed, what is over and
// what has a request are not.
func TestUnknownReservations(t *testing.T) {
	rome, milan, oslo := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "oslo")
	b := newBrokersOf(t, rome)
	now := b.options.Ledger.Now().Go()
	b.main.Record(transporttest.NewDeal(oslo, milan, "foreign", "2", now).Signed())
	forged := *transporttest.NewDeal(oslo, milan, "forged", "2", now).Signed()
	forged.Payload.Consumer = "rome"
	b.main.Record(&forged)
	over := transporttest.NewDeal(rome, milan, "over", "2", now)
	over.Signed()
	b.main.Record(over.Over(api.Released, api.ReasonReleased))
	lost := transporttest.NewDeal(rome, milan, "lost", "2", now)
	b.other.Record(lost.Signed())

	found, err := b.FindUnknown(t.Context())
	if err != nil || len(found) != 1 || found["lost"].Provider != "milan" {
		t.Fatalf("found %+v, %v", found, err)
	}
	b.otherAsked.OnReservation = func() (transport.Reservation, error) { return *lost.Shown(), nil }
	b.otherAsked.OnRelease = func(string, string) (transport.Reservation, error) {
		return *lost.Ending(rome, api.ReasonReleased), nil
	}
	err = b.EndUnknown(t.Context(), "lost")
	if asked := b.otherAsked.Asked(); err != nil || !slices.Contains(asked, "Release lost") || len(b.mainAsked.Asked()) > 0 {
		t.Errorf("the other broker is told %q: %v", asked, err)
	}
	b.mainAsked.OnReservation = func() (transport.Reservation, error) { return forged, nil }
	if err := b.EndUnknown(t.Context(), "forged"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("what others signed is ended: %v", err)
	}

	known := &market.Reservation{ID: "lost", State: api.Reserved, Consumer: "rome", Provider: "milan", Generation: 1,
		Object: &market.Object{Namespace: "team", Name: "web", UID: "uid"}}
	if _, err := b.options.Ledger.Do(t.Context(), market.Note{Reservation: known}); err != nil {
		t.Fatal(err)
	}
	if found, err = b.FindUnknown(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("what the Ledger knows is found: %+v, %v", found, err)
	}
	if err := b.EndUnknown(t.Context(), "lost"); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("what has a request is ended: %v", err)
	}
}
