package consumer

import (
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// Answered is the newest word of the broker on each reservation that an assignment has answered or, while one is on its way, that it
// answers. What is no newer brings us to the same answer, and to send it again costs the broker another signature to verify. To
// forget it is harmless.
type Answered struct {
	words sync.Map // of reservations' IDs to api.Fence
}

// has says whether the broker's word on a reservation is answered.
func (a *Answered) has(id string, word api.Fence) bool {
	answered, any := a.words.Load(id)
	return any && (answered == word || word.Before(answered.(api.Fence)))
}

func (a *Answered) put(id string, word api.Fence) { a.words.Store(id, word) }

func (a *Answered) forget(id string) { a.words.Delete(id) }
