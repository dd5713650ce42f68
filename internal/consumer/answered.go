package consumer

import (
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// Answered is the newest word of the broker on each reservation that an assignment has answered or, while one is on its way, that it
// answers. What is no newer brings us to the same answer, and to send it again costs the broker another signature to verify. To
// forget it is harmless, and so is a nil one, which remembers nothing.
type Answered struct {
	mu    sync.Mutex
	words map[string]api.Fence
}

// has says whether the broker's word on a reservation is answered.
func (a *Answered) has(id string, word api.Fence) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answered, any := a.words[id]
	return any && answered.Lineage == word.Lineage && word.Revision <= answered.Revision
}

func (a *Answered) put(id string, word api.Fence) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.words == nil {
		a.words = map[string]api.Fence{}
	}
	a.words[id] = word
}

func (a *Answered) forget(id string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.words, id)
}
