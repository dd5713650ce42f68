package requests

import (
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// answered holds, for each reservation, the newest state of it at the broker that this cluster has
// answered with an assignment. An older state would lead to the same answer, and each answer costs
// the broker a signature to verify. The zero Fence says that the broker did not take the answer. To
// forget one is harmless.
type answered struct {
	sync.Map // from ID to api.Fence
}

// has reports whether a state of a reservation is answered already.
func (a *answered) has(id string, state api.Fence) bool {
	answered, any := a.Load(id)
	return any && (answered == state || state.Before(answered.(api.Fence)))
}

// isUnsent reports whether the broker did not take the assignment of a held part. The broker may have ended
// before it answered, and need not show the hold again.
func (b *Borrower) isUnsent(part *market.Reservation) bool {
	answer, any := b.answered.Load(part.ID)
	return any && answer == api.Fence{} && part.State == api.Held && part.Acceptance == ""
}
