package match

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"unique"

	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

// shelf is what searches look at of a chunk of sellers: what rules most of them out, of all of them next to each other, because with
// tens of thousands of offers fetching memory is what takes the time. It is immutable.
type shelf struct {
	chunk  *market.Chunk
	fresh  [len(market.Chunk{})]market.Time // until when
	shown  [len(market.Chunk{})]shown
	region [len(market.Chunk{})]string
	gpus   [len(market.Chunk{})][]string // in lower case
	grams  [len(market.Chunk{})]grams    // of the texts of all its offers
	least  [len(market.Chunk{})]least    // of all its plans
}

// shown is to whom a seller's offers are on show.
type shown uint8

const (
	toNobody shown = iota // but itself, or there are none
	toSome
	toAll
)

// least is what the cheapest of some plans costs at its fewest units, where all of them are of one currency and period.
type least struct {
	money.Price
	mixed bool
}

// shelve makes the shelf of a chunk. Of an older one it keeps what is still so.
func shelve(c *market.Chunk, old *shelf) *shelf {
	s := &shelf{chunk: c}
	for i, l := range c {
		switch {
		case old != nil && old.chunk[i] == l:
			s.copy(old, i)
		case l != nil && old != nil && old.chunk[i] != nil && sameOffers(old.chunk[i], l):
			s.copy(old, i)
			s.fresh[i], s.shown[i] = l.FreshUntil, shownTo(l)
		case l != nil && len(l.Offers) > 0:
			s.fresh[i], s.shown[i] = l.FreshUntil, shownTo(l)
			s.put(i, l)
		}
	}
	return s
}

func sameOffers(a, b *market.Listing) bool {
	return a.Member == b.Member && len(a.Offers) == len(b.Offers) && (len(a.Offers) == 0 || &a.Offers[0] == &b.Offers[0])
}

func shownTo(l *market.Listing) shown {
	switch {
	case len(l.Offers) == 0 || !l.Active() || l.Member.Card == nil || l.Measured == nil || l.Measured.Terms == nil:
		return toNobody
	case everyone(&l.Measured.Terms.VisibleTo):
		return toAll
	}
	return toSome
}

func (s *shelf) copy(old *shelf, i int) {
	s.fresh[i], s.shown[i], s.region[i], s.gpus[i], s.grams[i], s.least[i] = old.fresh[i], old.shown[i], old.region[i], old.gpus[i], old.grams[i], old.least[i]
}

func (s *shelf) put(i int, l *market.Listing) {
	if l.Member != nil && l.Member.Card != nil {
		p := l.Member.Card.Properties
		s.region[i] = unique.Make(p.Region).Value() // so that comparing it fetches nothing
		for _, gpu := range p.GPUs {
			s.gpus[i] = append(s.gpus[i], unique.Make(strings.ToLower(gpu)).Value())
		}
	}
	for n, o := range l.Offers {
		s.grams[i].add(o.Text)
		for p := range o.Plans {
			s.least[i].take(&o.Plans[p], n == 0 && p == 0)
		}
	}
}

// take makes it that of one plan more. What is too much to be counted is less here than it is.
func (s *least) take(p *market.Plan, first bool) {
	over, all := bits.Mul64(uint64(p.Price.Nano), uint64(p.Min))
	if over > 0 || all > math.MaxInt64 {
		all = math.MaxInt64
	}
	switch {
	case first:
		s.Price = money.Price{Nano: int64(all), Currency: unique.Make(p.Price.Currency).Value(), Period: unique.Make(p.Price.Period).Value()}
	case s.Currency != p.Price.Currency || s.Period != p.Price.Period:
		s.mixed = true
	default:
		s.Nano = min(s.Nano, int64(all))
	}
}

// hasGPU says whether the name of one contains a text in lower case.
func hasGPU(gpus []string, text string) bool {
	return slices.ContainsFunc(gpus, func(name string) bool { return strings.Contains(name, text) })
}

// shelves are those of a view.
func (e *Engine) shelved(v *market.View) []*shelf {
	known := e.shelves.Load()
	var old []*shelf
	if known != nil {
		old = *known
	}
	chunks, changed := v.Chunks(), false
	out := make([]*shelf, len(chunks))
	for i, c := range chunks {
		var before *shelf
		if i < len(old) {
			before = old[i]
		}
		if before != nil && before.chunk == c {
			out[i] = before
			continue
		}
		out[i], changed = shelve(c, before), true
	}
	if changed {
		e.shelves.CompareAndSwap(known, &out) // of two that do so at once one is lost, and does it again
	}
	return out
}

// grams are the runs of three characters in a text, by a hash: a text that has one which another lacks is no part of it.
type grams [16]uint64

func gramsOf(text string) (g grams) {
	g.add(text)
	return g
}

func (g *grams) add(text string) {
	for i := 0; i+3 <= len(text); i++ {
		h := (uint32(text[i])<<16 | uint32(text[i+1])<<8 | uint32(text[i+2])) * 0x9e3779b1 >> 22
		g[h/64] |= 1 << (h % 64)
	}
}

// in says whether all of them are among others.
func (g *grams) in(others *grams) bool {
	for i := range g {
		if g[i]&^others[i] != 0 {
			return false
		}
	}
	return true
}
