package requests

import (
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// answered is the newest word of the broker on each reservation that an assignment has answered or, while one is on its way, that it
// answers. What is no newer brings us to the same answer, and to send it again costs the broker another signature to verify. To
// forget it is harmless.
type answered struct {
	words sync.Map // of reservations' IDs to api.Fence
}

// has says whether the broker's word on a reservation is answered.
func (a *answered) has(id string, word api.Fence) bool {
	answered, any := a.words.Load(id)
	return any && (answered == word || word.Before(answered.(api.Fence)))
}

func (a *answered) put(id string, word api.Fence) { a.words.Store(id, word) }

func (a *answered) forget(id string) { a.words.Delete(id) }
