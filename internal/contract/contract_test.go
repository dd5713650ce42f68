package contract_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sale is what rome and milan sign of a contract on two units of milan's plan small.
type sale struct {
	rome, milan *transporttest.Party
	assignment  api.Assignment
	offer       api.SignedOffer
}

func newSale(t *testing.T) *sale {
	s := &sale{rome: transporttest.NewParty(t, "rome"), milan: transporttest.NewParty(t, "milan")}
	s.offer = api.SignedOffer{Protocol: api.Protocol, Seller: "milan",
		Name: "web", Version: 1, Offer: transporttest.WebOffer("0.10")}
	document := s.milan.Sign(api.DocumentOffer, s.offer)
	s.assignment = s.rome.Assignment(*transporttest.NewDeal(s.rome,
		s.milan, "r-1", "2", noon).From(document, "small", 2).Shown())
	return s
}

// signed is the contract as the two then sign it.
func (s *sale) signed() api.ContractSpec {
	offer := s.milan.Sign(api.DocumentOffer, s.offer)
	a := s.assignment
	if a.Sale != nil {
		sold := *a.Sale
		sold.Offer = clusterkey.Digest(offer).String()
		a.Sale = &sold
	}
	return s.of(offer, s.rome.Sign(api.DocumentAssignment, a))
}

func (s *sale) of(offer, assignment string) api.ContractSpec {
	return api.ContractSpec{
		Reservation: "r-1", Offer: offer, Assignment: assignment, Acceptance: s.milan.Sign(api.DocumentAcceptance,
			s.acceptance(assignment)),
		SellerKey: s.milan.Key.Public().String(), BuyerKey: s.rome.Key.Public().String(),
	}
}

func (s *sale) acceptance(assignment string) api.Acceptance {
	return s.milan.Acceptance(transport.Reservation{ID: "r-1",
		Payload: api.Reservation{Generation: s.assignment.Generation, Consumer: "rome", Assignment: assignment}})
}

func TestVerify(t *testing.T) {
	s := newSale(t)
	terms, err := contract.Verify(s.signed())
	if err != nil {
		t.Fatal(err)
	}
	if terms.Buyer != "rome" || terms.Seller != "milan" || terms.Offer != "web" ||
		terms.Plan != "small" || terms.Units != 2 || terms.Pool != api.GeneralPool ||
		terms.Resources.Cpu().Value() != 2 || terms.Price.Amount != "0.10" ||
		!terms.Begins.Time.Equal(noon) || terms.Until.Sub(noon) != time.Hour {
		t.Errorf("it says %+v", terms)
	}
}

// One change to what is in a contract, or to what its documents say about each other, and it is none.
func TestVerifyRefuses(t *testing.T) {
	s, other := newSale(t), newSale(t)
	good, foreign := s.signed(), other.signed()
	for name, c := range map[string]api.ContractSpec{
		"nothing":              {},
		"another's offer":      with(good, func(c *api.ContractSpec) { c.Offer = foreign.Offer }),
		"another's assignment": with(good, func(c *api.ContractSpec) { c.Assignment = foreign.Assignment }),
		"another's acceptance": with(good, func(c *api.ContractSpec) { c.Acceptance = foreign.Acceptance }),
		"another's seller":     with(good, func(c *api.ContractSpec) { c.SellerKey = foreign.SellerKey }),
		"another's buyer":      with(good, func(c *api.ContractSpec) { c.BuyerKey = foreign.BuyerKey }),
		"another's seller, all of it": with(good, func(c *api.ContractSpec) {
			c.SellerKey, c.Offer, c.Acceptance = foreign.SellerKey, foreign.Offer, foreign.Acceptance
		}),
		"another's buyer, all of it": with(good, func(c *api.ContractSpec) {
			c.BuyerKey,
				c.Assignment = foreign.BuyerKey, foreign.Assignment
		}),
		"another reservation":          with(good, func(c *api.ContractSpec) { c.Reservation = "r-2" }),
		"no key of the seller":         with(good, func(c *api.ContractSpec) { c.SellerKey = "" }),
		"one key for both":             with(good, func(c *api.ContractSpec) { c.BuyerKey = c.SellerKey }),
		"the assignment as acceptance": with(good, func(c *api.ContractSpec) { c.Acceptance = c.Assignment }),
		"an offer of a later version":  s.and(func(s *sale) { s.offer.Version++ }, good.Assignment),
		"an offer at another price": s.and(func(s *sale) { s.offer.Offer = transporttest.WebOffer("0.01") },
			good.Assignment),
		"an offer of another seller":    s.but(func(s *sale) { s.offer.Seller = "oslo" }),
		"an offer that is none":         s.but(func(s *sale) { s.offer.Offer.Plans = nil }),
		"a size that is not the units'": s.but(func(s *sale) { s.assignment.Resources = transporttest.CPU("3") }),
		"units that are not sold": s.but(func(s *sale) {
			s.assignment.Sale = &api.Sale{Plan: "small", Units: 3}
			s.assignment.Resources = transporttest.CPU("3")
		}),
		"a plan that is none":         s.but(func(s *sale) { s.assignment.Sale = &api.Sale{Plan: "huge", Units: 2} }),
		"another pool":                s.but(func(s *sale) { s.assignment.Pool = "gpu" }),
		"no sale":                     s.but(func(s *sale) { s.assignment.Sale = nil }),
		"nothing that is sold":        s.but(func(s *sale) { s.assignment.Resources = nil }),
		"another provider":            s.but(func(s *sale) { s.assignment.Provider = "oslo" }),
		"another provider's key":      s.but(func(s *sale) { s.assignment.ProviderKey = s.assignment.ConsumerKey }),
		"another consumer's key":      s.but(func(s *sale) { s.assignment.ConsumerKey = s.assignment.ProviderKey }),
		"another reservation's":       s.but(func(s *sale) { s.assignment.Reservation = "r-2" }),
		"a yes to another buyer":      s.yes(good, func(a *api.Acceptance) { a.Consumer = "oslo" }),
		"a yes of another seller":     s.yes(good, func(a *api.Acceptance) { a.Provider = "oslo" }),
		"a yes to another generation": s.yes(good, func(a *api.Acceptance) { a.Generation++ }),
		"a yes to another assignment": s.yes(good,
			func(a *api.Acceptance) { a.Assignment = clusterkey.Digest(foreign.Assignment).String() }),
		"a yes to another reservation": s.yes(good, func(a *api.Acceptance) { a.Reservation = "r-2" }),
	} {
		if terms, err := contract.Verify(c); err == nil {
			t.Errorf("%s: it says %+v", name, terms)
		} else if code := api.CodeOf(err); code != api.CodeBadSignature && code != api.CodeInvalid {
			t.Errorf("%s: no clear error: %v", name, err)
		}
	}
}

// and is the contract with the offer changed after its assignment was signed.
func (s *sale) and(change func(*sale), assignment string) api.ContractSpec {
	next := *s
	change(&next)
	return next.of(next.milan.Sign(api.DocumentOffer, next.offer), assignment)
}

// but is the contract with something else signed by both.
func (s *sale) but(change func(*sale)) api.ContractSpec {
	next := *s
	change(&next)
	return next.signed()
}

// yes is the contract with something else accepted.
func (s *sale) yes(c api.ContractSpec, change func(*api.Acceptance)) api.ContractSpec {
	a := s.acceptance(c.Assignment)
	change(&a)
	c.Acceptance = s.milan.Sign(api.DocumentAcceptance, a)
	return c
}

func with(c api.ContractSpec, change func(*api.ContractSpec)) api.ContractSpec {
	change(&c)
	return c
}

// Each byte of each document counts.
func TestVerifyAnyByte(t *testing.T) {
	good := newSale(t).signed()
	for i, of := range []func(*api.ContractSpec) *string{
		func(c *api.ContractSpec) *string { return &c.Offer },
		func(c *api.ContractSpec) *string { return &c.Assignment },
		func(c *api.ContractSpec) *string { return &c.Acceptance },
	} {
		for at := range len(*of(&good)) {
			c := good
			text := []byte(*of(&c))
			if text[at]++; text[at] == '[' || text[at] == '{' || text[at] == ':' {
				text[at] = '-'
			}
			*of(&c) = string(text)
			if _, err := contract.Verify(c); err == nil {
				t.Fatalf("document %d is valid with another byte %d: %s", i, at, *of(&c))
			}
		}
	}
}

// bought is the record of a contract of ten hours from noon, with the given changes of its units.
func bought(t *testing.T, price string, units int64, past ...market.Stretch) *market.Reservation {
	t.Helper()
	s := newSale(t)
	spec := transporttest.WebOffer(cmp.Or(price, "1"))
	if price == "" {
		spec.Plans[0].Price = nil
	}
	offer, err := trust.Offer(s.milan.SignOffer("web", 1, spec), s.milan.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	from := market.At(noon)
	if len(past) > 0 {
		from = past[len(past)-1].From
		past = past[:len(past)-1]
	}
	return &market.Reservation{Offer: offer, Sale: &api.Sale{Offer: offer.Digest, Plan: "small", Units: units},
		Size: amounts.List{{Resource: "cpu", Value: units * 1000}}, From: from, Past: past, Until: hour(10)}
}

func hour(h float64) market.Time {
	return market.At(noon.Add(time.Duration(h * float64(time.Hour))))
}

func TestCost(t *testing.T) {
	grown := func() *market.Reservation {
		return bought(t, "0.10", 6, market.Stretch{From: hour(0), Units: 2},
			market.Stretch{From: hour(1), Units: 4}, market.Stretch{From: hour(3)})
	}
	for name, c := range map[string]struct {
		r     *market.Reservation
		ended float64
		at    float64
		want  string
	}{
		"whole":                          {r: bought(t, "0.10", 2), at: 10, want: "2.00 EUR"},
		"longer than it lasts":           {r: bought(t, "0.10", 2), at: 99, want: "2.00 EUR"},
		"half":                           {r: bought(t, "0.10", 2), at: 5, want: "1.00 EUR"},
		"before it began":                {r: bought(t, "0.10", 2), at: -5, want: "0.00 EUR"},
		"ended early":                    {r: bought(t, "0.10", 2), ended: 2.5, at: 10, want: "0.50 EUR"},
		"ended early, looked at earlier": {r: bought(t, "0.10", 2), ended: 2.5, at: 1, want: "0.20 EUR"},
		"free":                           {r: bought(t, "", 2), at: 10, want: ""},
		"resized twice":                  {r: grown(), at: 10, want: fmt.Sprintf("%.2f EUR", .1*(2*1+4*2+6*7))},
		"resized twice, in the second":   {r: grown(), at: 2, want: fmt.Sprintf("%.2f EUR", .1*(2*1+4*1))},
		"resized twice, at a seam":       {r: grown(), at: 3, want: fmt.Sprintf("%.2f EUR", .1*(2*1+4*2))},
		"resized, and ended between":     {r: grown(), ended: 2, at: 10, want: fmt.Sprintf("%.2f EUR", .1*(2*1+4*1))},
		"resized from before its start": {r: bought(t, "0.10", 2,
			market.Stretch{From: hour(0), Units: 6}, market.Stretch{From: hour(-1)}), at: 10, want: "2.00 EUR"},
	} {
		if c.ended != 0 {
			c.r.Ended = hour(c.ended)
		}
		if got := contract.CostText(c.r, hour(c.at).Go()); got != c.want {
			t.Errorf("%s: it comes to %s, want %s", name, got, c.want)
		}
	}
	if terms := contract.Terms(grown()); !terms.Begins.Time.Equal(noon) ||
		terms.Units != 6 || terms.Resources.Cpu().Value() != 6 {
		t.Errorf("its terms are %+v", terms)
	}
}

// What anybody may write into a Contract object, or a file, is refused with an error; it never panics.
func FuzzVerify(f *testing.F) {
	header := func(kind string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"alg":"EdDSA","typ":%q}`, kind)))
	}
	f.Add(header(api.DocumentOffer)+".e30.AA", "..", "", "AA", strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, offer, assignment, acceptance, seller, buyer string) {
		if terms, err := contract.Verify(api.ContractSpec{Reservation: "r-1",
			Offer: offer, Assignment: assignment, Acceptance: acceptance, SellerKey: seller, BuyerKey: buyer}); err == nil {
			t.Errorf("it says %+v", terms)
		}
	})
}
