package market

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Seller is how a cluster stands in the catalog, besides what it offers.
type Seller struct {
	// Offers is how many it has on sale, Fresh whether its lease is alive, To to whom it shows itself; nil: to nobody.
	Offers int
	Fresh  bool
	To     *api.Audience
}

// Seller says how a cluster stands in the catalog.
func (s *State) Seller(cluster string, now Time) Seller {
	p := s.providers[cluster]
	if p == nil {
		return Seller{}
	}
	out := Seller{Offers: len(p.onSale), Fresh: p.alive(now)}
	if p.measured != nil && p.measured.Terms != nil {
		out.To = &p.measured.Terms.VisibleTo
	}
	return out
}

// Same says whether nobody sees a difference.
func (s Seller) Same(t Seller) bool { return s.Fresh == t.Fresh && s.SameTo(t) }

// SameTo says whether both are shown to the same members.
func (s Seller) SameTo(t Seller) bool {
	if s.To == nil || t.To == nil {
		return s.To == t.To
	}
	return slices.Equal(s.To.Clusters, t.To.Clusters) && maps.Equal(s.To.Labels, t.To.Labels)
}

func (s *State) resell(seller string) {
	if s.Self == "" && (len(s.resold) == 0 || s.resold[len(s.resold)-1] != seller) {
		s.resold = append(s.resold, seller)
	}
}

// Resold returns, once, the sellers whose offers events changed since it was last asked. Nil in an agent.
func (s *State) Resold() []string {
	out := s.resold
	s.resold = nil
	return out
}
