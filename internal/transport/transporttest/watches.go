package transporttest

import (
	"context"
	"errors"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

var errEnough = errors.New("enough")

// watched is what a watch told until a bookmark at which it was enough.
type watched struct {
	opened   bool // by a snapshot event
	complete bool
	states   []api.State
	token    string
}

func (s *suite) watch(t *testing.T, b transport.Broker, token string, enough func(watched) bool) (w watched) {
	t.Helper()
	err := b.Watch(s.ctx, token, func(e api.WatchEvent) error {
		switch e.Type {
		case api.WatchSnapshot:
			w.opened, w.complete = true, e.Complete
		case api.WatchReservation:
			w.states = append(w.states, e.Object.Payload.State)
		case api.WatchBookmark:
			if w.token = e.Token; enough(w) {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) || !w.opened {
		t.Fatalf("it told %+v, and ended with %v instead of what its reader returned", w, err)
	}
	return w
}

func watches(t *testing.T, s *suite) {
	now := func(watched) bool { return true }
	if empty := s.watch(t, s.rome, "", now); !empty.complete || len(empty.states) != 0 {
		t.Errorf("of nothing: %+v", empty)
	}
	r := s.signed(t)
	first := s.watch(t, s.milan, "", now)
	if !first.complete || len(first.states) != 1 || first.token == "" {
		t.Errorf("the snapshot: %+v", first)
	}
	if _, err := s.milan.Accept(s.ctx, r.ID, s.Provider.Agree(r)); err != nil { // while nobody watches
		t.Fatal(err)
	}
	resumed := s.watch(t, s.milan, first.token, now)
	if resumed.complete || len(resumed.states) != 1 || resumed.states[0] != api.Reserved {
		t.Errorf("resumed: %+v", resumed)
	}
	acted := false
	s.watch(t, s.rome, "", func(w watched) bool {
		if !acted {
			acted = true
			if _, err := s.rome.Progress(s.ctx, r.ID, api.Active); err != nil {
				t.Fatal(err)
			}
		}
		return w.states[len(w.states)-1] == api.Active
	})
	other := s.start(t)
	foreign := s.watch(t, other.ProvidersTransport, "", now).token
	if again := s.watch(t, s.milan, foreign, now); !again.complete || len(again.states) != 1 {
		t.Errorf("with the token of another broker: %+v", again)
	}
}

func watchEnds(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	err := s.rome.Watch(ctx, "", func(e api.WatchEvent) error {
		if e.Type == api.WatchBookmark {
			cancel()
		}
		return nil
	})
	if err == nil || s.ctx.Err() != nil {
		t.Errorf("it ended with %v, %v", err, s.ctx.Err())
	}
}

// watchesCatalog follows what milan shows to rome, from the beginning and from a token.
func watchesCatalog(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	follow := func(from string) (stalls []api.SellerOffers, complete bool, token string) {
		t.Helper()
		err := s.rome.WatchCatalog(ctx, "", from, func(e api.WatchEvent) error {
			switch e.Type {
			case api.WatchCatalog:
				complete = e.Complete
			case api.WatchSeller:
				stalls = append(stalls, *e.Seller)
			case api.WatchBookmark:
				token = e.Token
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		return stalls, complete, token
	}
	if err := s.milan.Advertise(s.ctx, Measurement(1_000, "8")); err != nil {
		t.Fatal(err)
	}
	if err := s.milan.Publish(s.ctx, "web", s.Provider.SignOffer("web", 1, WebOffer("0.10"))); err != nil {
		t.Fatal(err)
	}
	stalls, complete, token := follow("all")
	if !complete || len(stalls) != 1 || stalls[0].Cluster != "milan" ||
		len(stalls[0].Offers) != 1 || stalls[0].Offers[0].ID != "milan/web" {
		t.Errorf("all: %+v, complete: %t", stalls, complete)
	}
	if err := s.milan.Withdraw(s.ctx, "web"); err != nil {
		t.Fatal(err)
	}
	if stalls, complete, _ = follow(token); complete || len(stalls) != 1 || len(stalls[0].Offers) != 0 {
		t.Errorf("what was missed: %+v, complete: %t", stalls, complete)
	}
}
