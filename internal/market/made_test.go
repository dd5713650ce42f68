package market_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// The reservations of an object's name are found until they are forgotten, as they last were.
func TestMade(t *testing.T) {
	s := market.New("rome")
	note := func(id, name, uid string, state api.State) {
		r := &market.Reservation{ID: id, State: state, Consumer: "rome"}
		if name != "" {
			r.Object = &market.Object{Namespace: "team", Name: name, UID: uid}
		}
		s.Apply(market.Event{Reservation: &market.ReservationEvent{Reservation: r}})
	}
	made := func(name string) (out string) {
		for _, r := range s.Made("team", name) {
			out += r.ID + " " + string(r.State) + ";"
		}
		return out
	}
	note("r-1", "web", "old", api.Held)
	note("r-2", "web", "new", api.Held)
	note("r-3", "db", "other", api.Held)
	note("r-4", "", "", api.Held)
	note("r-1", "web", "old", api.Reserved) // it changed last
	for name, want := range map[string]string{"web": "r-2 Held;r-1 Reserved;", "db": "r-3 Held;", "": "", "x": ""} {
		if got := made(name); got != want {
			t.Errorf("%q made %q, want %q", name, got, want)
		}
	}
	if other := s.Made("other", "web"); len(other) != 0 {
		t.Errorf("%d of another namespace", len(other))
	}
	note("r-2", "web", "new", api.Released)
	s.Apply(market.Event{Forget: &market.Forget{Reservations: []string{"r-1"}}})
	if got := made("web"); got != "r-2 Released;" {
		t.Errorf("after one was forgotten: %q", got)
	}
}
