package requests_test

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Words of 1 MiB, which the Ledger would keep. Neither an answer nor what a watch shows brings them there.
func TestALyingBrokerNamesTooMuch(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, lie := range map[string]func(r *api.Reservation){
		"a provider":           func(r *api.Reservation) { r.Provider = long },
		"a pool":               func(r *api.Reservation) { r.Pool = long },
		"an offer":             func(r *api.Reservation) { r.Sale = &api.Sale{Offer: long} },
		"a plan":               func(r *api.Reservation) { r.Sale = &api.Sale{Plan: long} },
		"an order of its own":  func(r *api.Reservation) { r.Fence.Lineage = long },
		"an end":               func(r *api.Reservation) { r.End = long },
		"many words, together": func(r *api.Reservation) { r.Provider, r.Pool = long[:40<<10], long[:40<<10] },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBorrower(t)
			d := b.deal()
			over := func(state api.State) *transport.Reservation {
				r := *d.Shown()
				r.Payload.State = state
				lie(&r.Payload)
				return &r
			}
			for _, state := range []api.State{api.Pending, api.Failed} {
				b.offers(func() *transport.Reservation { return over(state) })
				b.refusesToAsk(api.CodeBadSignature)
				b.holds("", "")
			}
			b.offers(d.Shown)
			b.takes(d)
			b.asked("Reserve uid-1", "Confirm r-1")
			before := b.ours()
			for _, state := range []api.State{api.Held, api.Pending, api.Failed, api.Releasing} {
				shown := over(state)
				shown.Payload.Group = strings.Split(long, "")[:20<<10]
				shown.Payload.Fence.Revision++
				if err := b.Sync(t.Context(), shown, before, b.wish); api.CodeOf(err) != api.CodeBadSignature {
					t.Errorf("%s: %v", state, err)
				}
				if b.ours() != before {
					t.Errorf("%s is recorded", state)
				}
			}
		})
	}
}
