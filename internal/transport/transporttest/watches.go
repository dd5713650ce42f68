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
