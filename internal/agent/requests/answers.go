package requests

import (
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// answered holds, for each reservation, the newest state of it at the broker that this cluster has
// answered with an assignment. An older state would lead to the same answer, and each answer costs
// the broker a signature to verify. To forget one is harmless.
type answered struct {
	words sync.Map // from ID to api.Fence
}

// has reports whether a state of a reservation is answered already.
func (a *answered) has(id string, word api.Fence) bool {
	answered, any := a.words.Load(id)
	return any && (answered == word || word.Before(answered.(api.Fence)))
}

func (a *answered) put(id string, word api.Fence) { a.words.Store(id, word) }

func (a *answered) forget(id string) { a.words.Delete(id) }
