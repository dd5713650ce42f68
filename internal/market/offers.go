package market

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
)

// Offer is what the market remembers of one version of an offer: as long as it is on sale, and
// after that while a reservation that was made from it is remembered. Records are immutable: a
// change is a new one.
type Offer struct {
	// Digest is that of Document, the seller's signed offer: it names this version for good.
	Digest   string `json:"digest"`
	Document string `json:"document"`
	// OnSale says that it can be bought, as far as its seller says.
	OnSale  bool `json:"onSale,omitempty"`
	Changed Time `json:"changed"`

	// Signed is what Document says, Plans are its plans in the market's terms. Set by Apply: Document is the
	// one truth.
	Signed *api.SignedOffer `json:"-"`
	Plans  []Plan           `json:"-"`
	// Text is what a search looks through, in lower case.
	Text string `json:"-"`
}

// Plan is a plan in the market's terms.
type Plan struct {
	*api.Plan
	Pool  string
	Price money.Price
	// Size is that of one unit.
	Size Amounts
	// Min, Max and Step are the units that one contract may have.
	Min, Max, Step int64
}

// Key is the name of an offer among all.
func (o *Offer) Key() string { return o.Signed.Seller + "/" + o.Signed.Name }

// Plan is the plan of a name, nil if there is none.
func (o *Offer) Plan(name string) *Plan {
	for i := range o.Plans {
		if o.Plans[i].Name == name {
			return &o.Plans[i]
		}
	}
	return nil
}

// Of is the size of that many units. Errors: Invalid at units where the plan does not sell so many.
func (p *Plan) Of(units int64) (Amounts, error) {
	if units < p.Min || units > p.Max || (units-p.Min)%p.Step != 0 {
		return nil, api.Invalid("units", "plan %s does not sell %d units", p.Name, units).Fix("%s", p.sells())
	}
	size := slices.Clone(p.Size)
	for i := range size {
		if size[i].Value > maxAmount/1000/units {
			return nil, api.Invalid("units", "%d units of %s are more than any cluster has", units, size[i].Resource).
				Fix("buy fewer")
		}
		size[i].Value *= units
	}
	return size, nil
}

// Fulfils says why a purchase cannot be served from this offer, whose seller and digest are known
// to be right, or returns what it comes to, from a time on for a duration. A price is not paid that
// the request does not name, by the digest or by the most that it pays. Errors: Invalid, NotFound
// and Conflict with the field of the request.
func (o *Offer) Fulfils(r api.Request, from time.Time, d time.Duration) (*api.Sale, *Plan, Amounts, error) {
	b := *r.Purchase
	switch {
	case b.Seller != o.Signed.Seller || b.Offer != o.Signed.Name:
		return nil, nil, nil, api.Errorf(api.CodeConflict, "offer %s is not %.63s/%.63s", o.Key(), b.Seller, b.Offer).
			At("purchase.offer")
	case b.Digest != "" && b.Digest != o.Digest:
		return nil, nil, nil, api.Errorf(api.CodeConflict, "offer %s has changed since it was looked at", o.Key()).
			At("purchase.digest").Fix("look at it again: bourse catalog %s", o.Key())
	}
	p := o.Plan(b.Plan)
	if p == nil {
		return nil, nil, nil, api.Errorf(api.CodeNotFound, "offer %s has no plan %.63q", o.Key(), b.Plan).
			At("purchase.plan").Fix("see: bourse catalog %s", o.Key())
	}
	if b.Digest == "" && (b.MaxPrice != nil || r.MaxPrice == nil) && !p.Price.Free() && !p.Price.AtMost(b.MaxPrice) {
		return nil, nil, nil, api.Errorf(api.CodeConflict, "plan %s/%s costs %s", o.Key(), p.Name, p.Price.Text()).
			At("purchase.maxPrice").
			Fix("say that this much is paid, in the same currency and for the same period, or name the offer's digest")
	}
	if err := p.Lasts(d); err != nil {
		return nil, nil, nil, err
	}
	sale := &api.Sale{Offer: o.Digest, Plan: p.Name, Units: b.Units}
	if sale.Units == 0 {
		sale.Units = p.Min
	}
	size, err := p.Of(sale.Units)
	if wrong, ok := errors.AsType[*api.Error](err); ok {
		return nil, nil, nil, wrong.At("purchase.units")
	}
	if err := p.checkPrice(r.MaxPrice, sale.Units, from, d); err != nil {
		return nil, nil, nil, err
	}
	return sale, p, size, nil
}

// Covers says why what a consumer signs is not what this offer sells, or nil. The size must be
// exactly that of the units.
func (o *Offer) Covers(sale api.Sale, pool string, size Amounts) error {
	p := o.Plan(sale.Plan)
	if p == nil || sale.Offer != o.Digest {
		return api.Errorf(api.CodeBadSignature, "the assignment is from a plan that offer %s does not have", o.Key())
	}
	sold, err := p.Of(sale.Units)
	if err != nil {
		return err
	}
	if pool != p.Pool || !size.Equal(sold) {
		return api.Errorf(api.CodeBadSignature, "the assignment is of another size or pool than %d units of plan %s/%s",
			sale.Units, o.Key(), p.Name)
	}
	return nil
}

// Lasts says why no contract may last that long, or nil. Clocks may differ by a minute. Errors: Invalid at
// duration.
func (p *Plan) Lasts(d time.Duration) error {
	if least := p.MinDuration; least != nil && d < least.Duration-time.Minute {
		return api.Invalid("duration", "%s is less than plan %s is sold for", d, p.Name).
			Fix("ask for at least %s", least.Duration)
	}
	return p.AtMost(d)
}

// AtMost says why no contract may go on for that long, or nil. Errors: Invalid at duration.
func (p *Plan) AtMost(d time.Duration) error {
	if most := p.MaxDuration; most != nil && d > most.Duration+time.Minute {
		return api.Invalid("duration", "%s is more than plan %s is sold for", d, p.Name).
			Fix("ask for at most %s", most.Duration)
	}
	return nil
}

func (p *Plan) sells() string {
	if p.Min == p.Max {
		return fmt.Sprintf("buy %d", p.Min)
	}
	return fmt.Sprintf("buy %d to %d, in steps of %d", p.Min, p.Max, p.Step)
}

// ReadOffer reads a signed offer whose signature was verified when it came. Errors: Invalid with the field.
func ReadOffer(document string) (*Offer, error) {
	o := &Offer{Document: document, Signed: &api.SignedOffer{}}
	parts := strings.Split(document, ".")
	if len(parts) != 3 {
		return nil, api.Invalid("document", "it is no signed document")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, o.Signed)
	}
	if err != nil {
		return nil, api.Invalid("document", "it is no signed offer: %s", err)
	}
	return o, o.read()
}

// CheckOffer says what of an offer cannot be. Errors: Invalid with the field.
func CheckOffer(signed *api.SignedOffer) error { return (&Offer{Signed: signed}).read() }

// read makes of what is signed what the market reckons with.
func (o *Offer) read() error {
	s := o.Signed
	if err := ValidCluster("seller", s.Seller); err != nil {
		return err
	}
	if err := validName("name", s.Name); err != nil {
		return err
	}
	if s.Version < 1 {
		return api.Invalid("version", "an offer has no version %d", s.Version).Fix("count from 1, and up")
	}
	if err := checkApproval("approveWithin", s.Offer.ApproveWithin); err != nil {
		return err
	}
	if n := len(s.Offer.Plans); n < 1 || n > api.MaxPlans {
		return api.Invalid("plans", "%d of them", n).Fix("give 1 to %d plans", api.MaxPlans)
	}
	o.Plans = make([]Plan, 0, len(s.Offer.Plans))
	for i := range s.Offer.Plans {
		p, err := readPlan(&s.Offer.Plans[i])
		if err != nil {
			return err
		}
		if o.Plan(p.Name) != nil {
			return api.Invalid("plans", "two are named %s", p.Name).Fix("give each its own name")
		}
		o.Plans = append(o.Plans, p)
	}
	o.Text = SearchText(s)
	return nil
}

// SearchText is what a search for a word looks through, in lower case.
func SearchText(s *api.SignedOffer) string {
	text := []string{s.Seller, s.Name, s.Offer.Type, s.Offer.Description}
	for name, value := range s.Offer.Labels {
		text = append(text, name+"="+value)
	}
	slices.Sort(text[4:])
	return strings.ToLower(strings.Join(text, "\n"))
}

func readPlan(p *api.Plan) (Plan, error) {
	at := "plans." + p.Name
	if err := validName("plans.name", p.Name); err != nil {
		return Plan{}, err
	}
	out := Plan{Plan: p, Pool: cmp.Or(p.Pool, api.GeneralPool), Min: 1, Max: 1, Step: 1}
	if err := validName(at+".pool", out.Pool); err != nil {
		return Plan{}, err
	}
	var err error
	if out.Size, err = ParseRequest(at+".resources", p.Resources); err != nil {
		return Plan{}, err
	}
	if out.Price, err = money.Parse(at+".price", p.Price); err != nil {
		return Plan{}, err
	}
	if u := p.Units; u != nil {
		out.Min, out.Max, out.Step = u.Min, u.Max, max(u.Step, 1)
	}
	if err := checkNotice(at+".notice", p.Notice); err != nil {
		return Plan{}, err
	}
	switch {
	case out.Min < 1 || out.Max < out.Min || out.Max > maxUnits:
		return Plan{}, api.Invalid(at+".units", "a contract cannot have %d to %d", out.Min, out.Max).
			Fix("give 1 <= min <= max <= %d", int64(maxUnits))
	case p.Quantity < 0 || p.Quantity > maxUnits:
		return Plan{}, api.Invalid(at+".quantity", "%d cannot be sold", p.Quantity).
			Fix("give 1 to %d, or nothing", int64(maxUnits))
	case p.Quantity > 0 && p.Quantity < out.Min:
		return Plan{}, api.Invalid(at+".quantity", "%d is less than the fewest that one contract has: %d", p.Quantity,
			out.Min).Fix("give more, or lower units.min")
	case p.MinDuration != nil && p.MinDuration.Duration < 0 || p.MaxDuration != nil && p.MaxDuration.Duration <= 0:
		return Plan{}, api.Invalid(at+".maxDuration", "durations are more than 0").Fix("give more, or nothing")
	case p.MinDuration != nil && p.MaxDuration != nil && p.MaxDuration.Duration < p.MinDuration.Duration:
		return Plan{}, api.Invalid(at+".maxDuration", "%s is less than minDuration", p.MaxDuration.Duration).
			Fix("give at least %s", p.MinDuration.Duration)
	}
	return out, nil
}

const maxUnits = 1_000_000

// plan names a plan of a seller's.
type plan struct{ Offer, Plan string }

// Publish puts a version of an offer on sale, in the place of the one before it. The signature was
// verified. Errors: Conflict for a version that is not newer than what is, or was, on sale;
// TooLarge where the seller has too many.
type Publish struct{ Offer *Offer }

func (c Publish) decide(s *State, now Time) (Outcome, error) {
	o := c.Offer
	old := s.onSale[o.Key()]
	if known := s.offers[o.Digest]; known != nil && known.OnSale {
		return Outcome{Offer: known}, nil
	}
	if s.Self == "" {
		if err := s.active(o.Signed.Seller); err != nil {
			return Outcome{}, err
		}
	}
	switch {
	case old != nil && old.Signed.Version >= o.Signed.Version:
		return Outcome{}, api.Errorf(api.CodeConflict, "offer %s is at version %d", o.Key(), old.Signed.Version).
			At("version").Fix("sign a newer one")
	case old == nil && s.providers[o.Signed.Seller].offers() >= api.MaxOffers:
		return Outcome{}, api.Errorf(api.CodeTooLarge, "%s has %d offers on sale", o.Signed.Seller, api.MaxOffers).
			Fix("withdraw one first")
	}
	if err := s.checkOfferBytes(o, old); err != nil {
		return Outcome{}, err
	}
	next := *o
	next.OnSale, next.Changed = true, now
	out := Outcome{Offer: &next}
	if old != nil { // first, so that two are never on sale, also where a journal ends between the two
		out.Events = append(out.Events, s.takenOff(old, now))
	}
	out.Events = append(out.Events, Event{Time: now, Offer: &next})
	return out, nil
}

// Withdraw takes an offer off sale. What was sold of it stays sold.
type Withdraw struct{ Seller, Name string }

func (c Withdraw) decide(s *State, now Time) (Outcome, error) {
	o := s.onSale[c.Seller+"/"+c.Name]
	if o == nil {
		return Outcome{}, nil
	}
	return Outcome{Events: []Event{s.takenOff(o, now)}}, nil
}

// takenOff is the event that takes an offer off sale: it is forgotten unless something was made from it.
func (s *State) takenOff(o *Offer, now Time) Event {
	if s.madeFrom[o.Digest] == 0 {
		return Event{Time: now, Forget: &Forget{Offers: []string{o.Digest}}}
	}
	next := *o
	next.OnSale, next.Changed = false, now
	return Event{Time: now, Offer: &next}
}

// keep remembers, with what is made from it, an offer that is not known.
func (s *State) keep(o *Offer, out Outcome, now Time) Outcome {
	if o == nil || s.offers[o.Digest] != nil {
		return out
	}
	kept := *o
	kept.OnSale, kept.Changed = false, now
	out.Events = append([]Event{{Time: now, Offer: &kept}}, out.Events...)
	return out
}

// putOffer makes o the record of its version.
func (s *State) putOffer(o *Offer) {
	if o.Signed == nil {
		read, err := ReadOffer(o.Document)
		if err != nil { // it was read before it was journalled
			return
		}
		o.Signed, o.Plans, o.Text = read.Signed, read.Plans, read.Text
	}
	if s.offers[o.Digest] == nil {
		s.offerBytes[o.Signed.Seller] += o.bytes()
	}
	s.offers[o.Digest] = o
	switch {
	case o.OnSale:
		s.onSale[o.Key()] = o
		s.provider(o.Signed.Seller).sell(o)
	case s.onSale[o.Key()] != nil && s.onSale[o.Key()].Digest == o.Digest:
		s.takeOff(o)
	}
	s.resell(o.Signed.Seller)
	s.touch(s.provider(o.Signed.Seller))
}

func (s *State) takeOff(o *Offer) {
	delete(s.onSale, o.Key())
	s.resell(o.Signed.Seller)
	p := s.provider(o.Signed.Seller)
	p.onSale = slices.DeleteFunc(slices.Clone(p.onSale), func(x *Offer) bool { return x.Signed.Name == o.Signed.Name })
	s.touch(p)
}

func (s *State) forgetOffer(digest string) {
	o := s.offers[digest]
	if o == nil {
		return
	}
	if on := s.onSale[o.Key()]; on != nil && on.Digest == digest {
		s.takeOff(o)
	}
	delete(s.offers, digest)
	if s.offerBytes[o.Signed.Seller] -= o.bytes(); s.offerBytes[o.Signed.Seller] == 0 {
		delete(s.offerBytes, o.Signed.Seller)
	}
}

// sell puts an offer among those on sale, which are sorted by name. The slice is replaced: views share it.
func (p *provider) sell(o *Offer) {
	i, found := slices.BinarySearchFunc(p.onSale, o, func(a, b *Offer) int {
		return strings.Compare(a.Signed.Name, b.Signed.Name)
	})
	next := slices.Clone(p.onSale)
	if found {
		next[i] = o
	} else {
		next = slices.Insert(next, i, o)
	}
	p.onSale = next
}

// Offer is the record of a version, or nil.
func (s *State) Offer(digest string) *Offer { return s.offers[digest] }

// OnSale is the version of an offer that is on sale, or nil.
func (s *State) OnSale(seller, name string) *Offer { return s.onSale[seller+"/"+name] }

// Offers returns the records, by digest.
func (s *State) Offers() []*Offer {
	out := make([]*Offer, 0, len(s.offers))
	for _, o := range s.offers {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *Offer) int { return cmp.Compare(a.Digest, b.Digest) })
	return out
}
