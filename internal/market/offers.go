package market

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Offer is the record of one version of an offer. The market keeps it while the version is on sale, and
// while it remembers a reservation from it. Records are immutable: a change is a new record.
type Offer struct {
	// Digest is that of Document, the seller's signed offer. It identifies the version.
	Digest   string `json:"digest"`
	Document string `json:"document"`
	// OnSale says that the seller sells it.
	OnSale  bool `json:"onSale,omitempty"`
	Changed Time `json:"changed"`

	// Signed is the content of Document, Plans its plans with amounts in the market's terms. Apply sets both
	// from Document.
	Signed *api.SignedOffer `json:"-"`
	Plans  []Plan           `json:"-"`
	// Text is the text to search, in lower case.
	Text string `json:"-"`
}

// Plan is a plan with amounts in the market's terms.
type Plan struct {
	*api.Plan
	Pool  string
	Price money.Price
	// Size is that of one unit.
	Size amounts.List
	// Min, Max and Step bound the units of one contract.
	Min, Max, Step int64
}

// Key returns SELLER/NAME.
func (o *Offer) Key() string { return o.Signed.Seller + "/" + o.Signed.Name }

// Plan returns the plan of a name, or nil.
func (o *Offer) Plan(name string) *Plan {
	for i := range o.Plans {
		if o.Plans[i].Name == name {
			return &o.Plans[i]
		}
	}
	return nil
}

// Of returns the size of that many units. Errors: Invalid at units if the plan does not sell that number.
func (p *Plan) Of(units int64) (amounts.List, error) {
	if units < p.Min || units > p.Max || (units-p.Min)%p.Step != 0 {
		return nil, api.Invalid("units", "plan %s does not sell %d units", p.Name, units).Fix("%s", p.sells())
	}
	size := slices.Clone(p.Size)
	for i := range size {
		if size[i].Value > amounts.MaxRequest/units {
			return nil, api.Invalid("units", "%d units of %s are more than any cluster has", units, size[i].Resource).
				Fix("buy fewer")
		}
		size[i].Value *= units
	}
	return size, nil
}

// Fulfils returns the sale, the plan and the size of a purchase from this offer, which the caller looked
// up. The request must agree to the price, by the digest or by a highest price. Errors: Invalid, NotFound
// and Conflict with the field of the request.
func (o *Offer) Fulfils(r api.Request, from time.Time, d time.Duration) (*api.Sale, *Plan, amounts.List, error) {
	b := *r.Purchase
	switch {
	case b.Seller != o.Signed.Seller || b.Offer != o.Signed.Name:
		return nil, nil, nil, api.Errorf(api.CodeConflict, "offer %s is not %.63s/%.63s", o.Key(), b.Seller, b.Offer).
			At("purchase.offer")
	case b.Digest != "" && b.Digest != o.Digest:
		return nil, nil, nil, api.Errorf(api.CodeConflict, "offer %s has changed since you read it", o.Key()).
			At("purchase.digest").FixBy("read it again", "bourse", "catalog", o.Key())
	}
	p := o.Plan(b.Plan)
	if p == nil {
		return nil, nil, nil, api.Errorf(api.CodeNotFound, "offer %s has no plan %.63q", o.Key(), b.Plan).
			At("purchase.plan").FixBy("see", "bourse", "catalog", o.Key())
	}
	if b.Digest == "" && (b.MaxPrice != nil || r.MaxPrice == nil) && !p.Price.Free() && !p.Price.AtMost(b.MaxPrice) {
		return nil, nil, nil, api.Errorf(api.CodeConflict, "plan %s/%s costs %s", o.Key(), p.Name, p.Price.Text()).
			At("purchase.maxPrice").
			Fix("give at least this price, in the same currency and for the same period, or the offer's digest")
	}
	if err := p.Lasts(d); err != nil {
		return nil, nil, nil, err
	}
	sale := &api.Sale{Offer: o.Digest, Plan: p.Name, Units: cmp.Or(b.Units, p.Min)}
	size, err := p.Of(sale.Units)
	if wrong, ok := errors.AsType[*api.Error](err); ok {
		return nil, nil, nil, wrong.At("purchase.units")
	}
	if err := p.checkPrice(r.MaxPrice, sale.Units, from, d); err != nil {
		return nil, nil, nil, err
	}
	return sale, p, size, nil
}

// Covers reports why this offer does not sell the content of an assignment, or nil. The size must be exactly
// that of the units.
func (o *Offer) Covers(sale api.Sale, pool string, size amounts.List) error {
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

// Lasts reports why no contract may have that duration, or nil. Clocks may differ by a minute. Errors:
// Invalid at duration.
func (p *Plan) Lasts(d time.Duration) error {
	if least := p.MinDuration; least != nil && d < least.Duration-time.Minute {
		return api.Invalid("duration", "%s is less than the shortest contract of plan %s", d, p.Name).
			Fix("ask for at least %s", least.Duration)
	}
	return p.AtMost(d)
}

// AtMost reports why no contract may last that much longer, or nil. Errors: Invalid at duration.
func (p *Plan) AtMost(d time.Duration) error {
	if most := p.MaxDuration; most != nil && d > most.Duration+time.Minute {
		return api.Invalid("duration", "%s is more than the longest contract of plan %s", d, p.Name).
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

// ReadOffer reads a signed offer that someone verified before it was kept. Read others by trust.Offer.
// Errors: Invalid with the field.
func ReadOffer(document string) (*Offer, error) {
	o := &Offer{Document: document, Signed: &api.SignedOffer{}}
	parts := strings.Split(document, ".")
	if len(parts) != 3 {
		return nil, api.Invalid("document", "it is no signed document")
	}
	signed, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = payload.Unmarshal(signed, o.Signed, payload.Signed)
	}
	if err != nil {
		return nil, api.Invalid("document", "it is no signed offer: %s", err)
	}
	return o, o.read()
}

// CheckOffer reports why an offer may not be signed, or nil. Errors: Invalid with the field.
func CheckOffer(signed *api.SignedOffer) error {
	if err := (&Offer{Signed: signed}).read(); err != nil {
		return err
	}
	for i := range signed.Offer.Plans {
		p := &signed.Offer.Plans[i]
		if err := amounts.CheckWhole("plans."+p.Name+".resources", p.Resources); err != nil {
			return err
		}
	}
	return nil
}

// read sets Plans and Text from Signed.
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
		p, err := ReadPlan(&s.Offer.Plans[i])
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

// SearchText returns the text of an offer to search, in lower case.
func SearchText(s *api.SignedOffer) string {
	text := []string{s.Seller, s.Name, s.Offer.Type, s.Offer.Description}
	for name, value := range s.Offer.Labels {
		text = append(text, name+"="+value)
	}
	slices.Sort(text[4:])
	return strings.ToLower(strings.Join(text, "\n"))
}

// ReadPlan reads a plan of an offer. Errors: Invalid with the field.
func ReadPlan(p *api.Plan) (Plan, error) {
	field := "plans." + p.Name
	if err := validName("plans.name", p.Name); err != nil {
		return Plan{}, err
	}
	out := Plan{Plan: p, Pool: cmp.Or(p.Pool, api.GeneralPool), Min: 1, Max: 1, Step: 1}
	if err := validName(field+".pool", out.Pool); err != nil {
		return Plan{}, err
	}
	var err error
	if out.Size, err = amounts.ParseRequest(field+".resources", p.Resources); err != nil {
		return Plan{}, err
	}
	if out.Price, err = money.Parse(field+".price", p.Price); err != nil {
		return Plan{}, err
	}
	if u := p.Units; u != nil {
		out.Min, out.Max, out.Step = u.Min, u.Max, max(u.Step, 1)
	}
	if err := checkNotice(field+".notice", p.Notice); err != nil {
		return Plan{}, err
	}
	switch {
	case out.Min < 1 || out.Max < out.Min || out.Max > api.MaxUnits:
		return Plan{}, api.Invalid(field+".units", "a contract cannot have %d to %d", out.Min, out.Max).
			Fix("give 1 <= min <= max <= %d", api.MaxUnits)
	case p.Quantity < 0 || p.Quantity > api.MaxUnits:
		return Plan{}, api.Invalid(field+".quantity", "%d cannot be sold", p.Quantity).
			Fix("give 1 to %d, or nothing", api.MaxUnits)
	case p.Quantity > 0 && p.Quantity < out.Min:
		return Plan{}, api.Invalid(field+".quantity", "%d is less than the fewest that one contract has: %d", p.Quantity,
			out.Min).Fix("give more, or lower units.min")
	case p.MinDuration != nil && p.MinDuration.Duration < 0 || p.MaxDuration != nil && p.MaxDuration.Duration <= 0:
		return Plan{}, api.Invalid(field+".maxDuration", "durations are more than 0").Fix("give more, or nothing")
	case p.MinDuration != nil && p.MaxDuration != nil && p.MaxDuration.Duration < p.MinDuration.Duration:
		return Plan{}, api.Invalid(field+".maxDuration", "%s is less than minDuration", p.MaxDuration.Duration).
			Fix("give at least %s", p.MinDuration.Duration)
	}
	return out, nil
}

// plan names a plan of a seller.
type plan struct{ Offer, Plan string }
