package requests_test

import (
	"context"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// parts is a broker that answers a request for 4 CPUs, on two clusters at most, with two parts.
func parts(t *testing.T) (b *borrower, shown map[string]*transport.Reservation) {
	b = newBorrower(t)
	b.wish.Request = transporttest.Request("4")
	b.wish.Request.Split = 2
	return b, b.splits()
}

// splits makes the broker answer with two parts, r-1 at milan and r-2 at paris.
func (b *borrower) splits() (shown map[string]*transport.Reservation) {
	paris := transporttest.NewParty(b.t, "paris")
	shown = map[string]*transport.Reservation{
		"r-1": transporttest.NewDeal(b.rome, b.milan, "r-1", "2", b.now()).Shown(),
		"r-2": transporttest.NewDeal(b.rome, paris, "r-2", "2", b.now()).Shown(),
	}
	for _, r := range shown {
		r.Payload.Group = []string{"r-1", "r-2"}
	}
	b.broker.OnReserve = func(string, api.Request) (transport.Reservation, error) { return *shown["r-1"], nil }
	next := 0
	b.broker.OnReservation = func() (transport.Reservation, error) {
		id := shown["r-1"].Payload.Group[next%len(shown["r-1"].Payload.Group)]
		next++
		if r := shown[id]; r != nil {
			return *r, nil
		}
		return transport.Reservation{}, api.Errorf(api.CodeNotFound, "no %s", id)
	}
	b.broker.OnConfirm = func(id, assignment string) (transport.Reservation, error) {
		r := *shown[id]
		r.Payload.Assignment = assignment
		return r, nil
	}
	return shown
}

// Both parts are recorded before one is signed, and both are signed.
func TestParts(t *testing.T) {
	b, _ := parts(t)
	b.asked("Reserve uid-1", "Confirm r-1", "Confirm r-2")
	b.wish.Request.Confirm = true
	b, _ = parts(t)
	b.wish.Request.Confirm = true
	b.asked("Reserve uid-1")
	b.wish.Confirmed = true
	b.asked("Reserve uid-1", "Confirm r-1", "Confirm r-2")
}

// A part that this cluster cannot use is held elsewhere before anything is signed.
func TestAPartThatIsOfNoUse(t *testing.T) {
	b, _ := parts(t)
	asked := 0
	b.restart(func(o *requests.BorrowerOptions) {
		o.Reach = func(_ context.Context, provider *api.Card, _ api.Request) error {
			if asked++; provider.Cluster == "paris" && asked <= 2 {
				return api.Errorf(api.CodeUnreachable, "not from here")
			}
			return nil
		}
	})
	b.broker.OnRefuse = func(id string, r api.Refusal) (transport.Reservation, error) {
		if id != "r-2" || r.Reason != api.ReasonUnreachable {
			t.Errorf("refused %s: %+v", id, r)
		}
		return transport.Reservation{}, nil
	}
	b.asked("Reserve uid-1", "Refuse r-2 ApiServerUnreachable", "Reserve uid-1", "Confirm r-1", "Confirm r-2")
}

// Parts that together are not what was asked are neither signed nor recorded.
func TestPartsOfALiar(t *testing.T) {
	for name, lie := range map[string]func(b *borrower, first, second *transport.Reservation){
		"nobody asked for parts": func(b *borrower, _, _ *transport.Reservation) { b.wish.Request.Split = 0 },
		"less": func(_ *borrower, first,
			_ *transport.Reservation) {
			first.Payload.Resources = transporttest.CPU("1")
		},
		"more": func(_ *borrower, _,
			second *transport.Reservation) {
			second.Payload.Resources = transporttest.CPU("3")
		},
		"one twice": func(_ *borrower, first, _ *transport.Reservation) {
			first.Payload.Group = []string{"r-1", "r-1"}
		},
		"three": func(_ *borrower, first, _ *transport.Reservation) {
			first.Payload.Group = []string{"r-1", "r-2", "r-1"}
		},
		"one": func(_ *borrower, first, _ *transport.Reservation) { first.Payload.Group = []string{"r-1"} },
		"no ID": func(_ *borrower, first,
			_ *transport.Reservation) {
			first.Payload.Group = []string{"r-1", "../r-2"}
		},
		"of another request": func(_ *borrower, _,
			second *transport.Reservation) {
			second.Payload.Group = []string{"r-2", "r-1"}
		},
		"on one provider": func(_ *borrower, first, second *transport.Reservation) {
			second.Payload.Provider, second.Payload.ProviderCard, second.Payload.Slice = first.Payload.Provider, first.Payload.ProviderCard, first.Payload.Slice
		},
		"of another consumer": func(_ *borrower, _, second *transport.Reservation) { second.Payload.Consumer = "oslo" },
	} {
		t.Run(name, func(t *testing.T) {
			b, shown := parts(t)
			lie(b, shown["r-1"], shown["r-2"])
			if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeBadSignature {
				t.Errorf("%v", err)
			}
			for _, call := range b.broker.Asked() {
				if call == "Confirm r-1" || call == "Confirm r-2" {
					t.Error(call)
				}
			}
		})
	}
}
