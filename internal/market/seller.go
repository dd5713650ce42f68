package market

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Seller is the state of a cluster in the catalog, without its offers.
type Seller struct {
	// Offers is the number of offers on sale. Fresh says that the lease is alive. To is who may see
	// it; nil: nobody.
	Offers int
	Fresh  bool
	To     *api.Audience
}

// Seller returns the state of a cluster in the catalog.
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

// Same reports whether no member sees a difference.
func (s Seller) Same(t Seller) bool { return s.Fresh == t.Fresh && s.SameTo(t) }

// SameTo reports whether the same members see both.
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

// Resold returns the sellers whose offers changed since the last call. Nil in an agent.
func (s *State) Resold() []string {
	out := s.resold
	s.resold = nil
	return out
}
