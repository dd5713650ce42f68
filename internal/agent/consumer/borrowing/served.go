package borrowing

import (
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/turns"
)

// served returns the loans of an account that its virtual node serves, by ID. While an account grows, its virtual node
// never has all of it, so some loans are served before others: those that are Active, and then the namespaces take
// turns. One that does not fit yet keeps what the node has left for it: else smaller ones that come later would take
// each bit that the node gains. While the provider holds its grant back nothing more comes, and nobody keeps anything.
// A VirtualNodePool asks for less than the sum of its loans, so with one all are served at once.
func served(loans []bound, s offload.SliceState) map[string]bool {
	has := map[string]bool{}
	if !s.Ready && (s.Serves == nil || firstOfPool(loans) >= 0) {
		return has
	}
	rest := amounts.Clamp(s.Serves)
	for _, l := range inTurns(loans) {
		fits := s.Ready || rest.Fits(l.Size)
		if fits {
			has[l.ID] = true
		}
		if fits || l.State != api.Active && s.Held == "" {
			rest = rest.Minus(l.Size)
		}
	}
	return has
}

// inTurns returns the Active loans, and then the others, of each namespace one after the other.
func inTurns(loans []bound) (all []bound) {
	byID := map[string]bound{}
	waiting := turns.New(func(id string) (turn turns.Turn) {
		if o := byID[id].Object; o != nil {
			turn.Party = o.Namespace
		}
		return turn
	})
	for _, l := range loans {
		if l.State == api.Active {
			all = append(all, l)
			continue
		}
		byID[l.ID] = l
		waiting.Push(l.ID)
	}
	for range byID {
		all = append(all, byID[waiting.Pop()])
	}
	return all
}

// atOnce is how many reservations of an account are reported as Active in one look, and how many others are shown: a
// reservation that comes meanwhile waits for no more than these.
const atOnce = 32

// reportAgain is after what time a reservation is reported as Active again that the Ledger still calls Reserved.
const reportAgain = 5 * time.Second

// begins returns the first loans that are served and not Active yet. The namespaces take turns.
func (b *Borrowing) begins(provider string, loans []bound, has map[string]bool) (first []bound) {
	reported, now := b.state(provider).reported, b.clock.Now()
	for _, l := range inTurns(loans) {
		at, was := reported[l.ID]
		if has[l.ID] && l.State != api.Active && !(was && now.Sub(at) < reportAgain) && len(first) < atOnce {
			first = append(first, l)
		}
	}
	return first
}

// others returns those of some loans that are not among the first, from where the last look ended.
func (b *Borrowing) others(provider string, some, first []bound) (rest []bound) {
	last := slices.IndexFunc(some, func(l bound) bool { return l.ID == b.state(provider).lastShown })
	for i := range some {
		l := some[(last+1+i)%len(some)]
		if !slices.ContainsFunc(first, func(other bound) bool { return other.ID == l.ID }) {
			rest = append(rest, l)
		}
	}
	return rest
}
