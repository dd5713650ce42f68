package borrowing

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/turns"
)

// served returns the loans of an account that its virtual node serves, by ID. While an account grows, its virtual node
// never has all of it, so some loans are served before others: those that are Active, and then the namespaces take
// turns. A VirtualNodePool asks for less than the sum of its loans, so with one all are served at once.
func served(loans []bound, s offload.Standing) map[string]bool {
	has := map[string]bool{}
	if !s.Ready && (s.Serves == nil || firstOfPool(loans) >= 0) {
		return has
	}
	rest := market.ClampAmounts(s.Serves)
	for _, l := range inTurns(loans) {
		if s.Ready || rest.Fits(l.Size) {
			rest = rest.Minus(l.Size)
			has[l.ID] = true
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

// begins returns the loans that are served, and not Active yet.
func begins(loans []bound, has map[string]bool) []bound {
	return slices.DeleteFunc(slices.Clone(loans), func(l bound) bool { return !has[l.ID] || l.State == api.Active })
}
