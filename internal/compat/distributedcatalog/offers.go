package distributedcatalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
)

// Labels of an offer that keep what the prototype says of one and Bourse has no field for.
const (
	labelID      = "distributed-catalog/id"
	labelName    = "distributed-catalog/name"
	labelPretty  = "distributed-catalog/pretty-name"
	labelCreated = "distributed-catalog/created"
	labelPlan    = "distributed-catalog/plan." // + the plan's name: its ID
	labelRAM     = "distributed-catalog/ram"   // its plans were written with ram instead of memory
)

const (
	// maxID bounds IDs, in bytes; an offer's is by default the cluster's and the offer's name with
	// "_" between them, a plan's the offer's and the plan's.
	maxID = 200
	// endless is the quantity that is no bound.
	endless = 1_000_000
)

// words are the prototype's for resources.
var words = map[string]string{"cpu": "cpu", "memory": "memory",
	"ram": "memory", "storage": "ephemeral-storage", "gpu": "nvidia.com/gpu"}

// shownAs is the other way round.
var shownAs = map[string]string{"cpu": "cpu", "memory": "memory",
	"ephemeral-storage": "storage", "nvidia.com/gpu": "gpu"}

// decimal is a number as JSON writes it, without an exponent.
var decimal = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,30})?$`)

// nameOf is the name in Bourse of what has an ID in the prototype, within what has the ID of
// parent. Errors: Invalid at field.
func nameOf(field, id, parent string) (string, error) {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) || strings.ContainsFunc(id, unhandy) {
		return "", api.Invalid(field, "%.80q is not an ID", id).
			Fix("use 1 to %d printable characters without spaces, / or \\", maxID)
	}
	name := strings.TrimPrefix(id, parent+"_")
	if len(validation.IsDNS1123Label(name)) == 0 {
		return name, nil
	}
	sum := sha256.Sum256([]byte(id))
	return "id-" + hex.EncodeToString(sum[:10]), nil
}

func unhandy(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == '/' || r == '\\' }

// offerID returns the prototype's ID of an offer: the one that it chose, else one of its pattern.
func offerID(seller, name string, o *api.OfferSpec) string {
	if id := o.Labels[labelID]; id != "" {
		if again, err := nameOf("", id, seller); err == nil && again == name {
			if of, _, owned := strings.Cut(id, "_"); !owned || of == seller { // nobody names another's
				return id
			}
		}
	}
	return seller + "_" + name
}

func planID(offer string, name string, o *api.OfferSpec) string {
	if id := o.Labels[labelPlan+name]; id != "" {
		if again, err := nameOf("", id, offer); err == nil && again == name {
			return id
		}
	}
	return offer + "_" + name
}

// planOf is the plan of an ID, nil if the offer has none.
func planOf(offer, id string, o *api.OfferSpec) *api.Plan {
	for i := range o.Plans {
		if p := &o.Plans[i]; planID(offer, p.Name, o) == id || p.Name == id {
			return p
		}
	}
	return nil
}

// show writes an offer as the prototype does: to its seller as the offer says; to buyers, where
// left says how many units of a plan are left, each plan as the fewest units that are sold, as
// these are what one purchase gets and pays.
func show(seller, name string, o *api.OfferSpec, left func(plan *api.Plan) int64) Offer {
	onSale := !o.Draft
	out := Offer{
		OfferID: offerID(seller, name, o), OfferName: cmp.Or(o.Labels[labelName],
			name), OfferType: o.Type, Description: o.Description,
		ClusterPrettyName: cmp.Or(o.Labels[labelPretty],
			seller), ClusterID: seller, Status: &onSale, Created: "0", Plans: []Plan{},
	}
	if created, err := strconv.ParseInt(o.Labels[labelCreated], 10, 64); err == nil {
		out.Created = json.Number(strconv.FormatInt(created, 10))
	}
	for i := range o.Plans {
		p := &o.Plans[i]
		quantity, units := cmp.Or(p.Quantity, endless), int64(1)
		if left != nil {
			if p.Units != nil {
				units = max(p.Units.Min, 1)
			}
			if quantity = left(p); quantity != endless { // a million stays the word for no bound
				quantity /= units
			}
		}
		shown := Plan{PlanID: planID(out.OfferID, p.Name, o), PlanName: cmp.Or(p.Description, p.Name),
			PlanQuantity: &quantity,
			PlanCost:     "0", PlanCostCurrency: "EUR", PlanCostPeriod: string(api.PeriodMonth), Resources: map[string]Amount{}}
		if p.Price != nil {
			shown.PlanCost, shown.PlanCostCurrency, shown.PlanCostPeriod = times(p.Price.Amount,
				units), p.Price.Currency, string(p.Price.Period)
		}
		for resource, quantity := range p.Resources {
			amount := quantity.DeepCopy()
			amount.Mul(units)
			word := shownAs[string(resource)]
			if word == "memory" && o.Labels[labelRAM] != "" {
				word = "ram"
			}
			if word != "" {
				shown.Resources[word] = Amount(amount.String())
				continue
			}
			if shown.OtherResources == nil {
				shown.OtherResources = map[string]Amount{}
			}
			shown.OtherResources[string(resource)] = Amount(amount.String())
		}
		out.Plans = append(out.Plans, shown)
	}
	return out
}

// times is so much so many times, exactly.
func times(amount string, units int64) json.Number {
	number, ok := new(big.Rat).SetString(amount)
	if !ok || units == 1 {
		return json.Number(amount)
	}
	return json.Number(plainly(number.Mul(number, new(big.Rat).SetInt64(units))))
}

// plainly is an amount with at most nine digits after the point, and none that says nothing.
func plainly(amount *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(amount.FloatString(9), "0"), ".")
}

// showListing is an offer as buyers see it.
func showListing(l *api.Listing) Offer {
	return show(l.Seller, l.Name, &l.Offer, func(p *api.Plan) int64 { return l.Plans[p.Name].Remaining })
}

// find is the listing whose offer has an ID, nil if none has. IDs with a seller's name in front are
// only ever that seller's.
func find(listed []api.Envelope[api.Listing], id string) *api.Listing {
	for i := range listed {
		l := &listed[i].Payload
		if offerID(l.Seller, l.Name, &l.Offer) == id || l.Seller+"_"+l.Name == id {
			return l
		}
	}
	return nil
}
