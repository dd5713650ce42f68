package distributedcatalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
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

// short is a quantity that is safe to read: none with an exponent.
var short = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$`)

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
			quantity = left(p) / units
		}
		shown := Plan{PlanID: planID(out.OfferID, p.Name, o), PlanName: cmp.Or(p.Description, p.Name),
			PlanQuantity: &quantity,
			PlanCost:     "0", PlanCostCurrency: "EUR", PlanCostPeriod: string(api.PeriodMonth), Resources: map[string]Amount{}}
		if p.Price != nil {
			shown.PlanCost, shown.PlanCostCurrency, shown.PlanCostPeriod = times(p.Price.Amount,
				units), p.Price.Currency, string(p.Price.Period)
		}
		for resource, one := range p.Resources {
			amount := one.DeepCopy()
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
	one, ok := new(big.Rat).SetString(amount)
	if !ok || units == 1 {
		return json.Number(amount)
	}
	return json.Number(plainly(one.Mul(one, new(big.Rat).SetInt64(units))))
}

// plainly is an amount with at most nine digits after the point, and none that says nothing.
func plainly(amount *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(amount.FloatString(9), "0"), ".")
}

// read makes of what the prototype says of an offer its name and what it says in Bourse. What the
// prototype has no word for (to whom it is shown, what it may cost to end it ...) stays as it was.
// Errors: Invalid with the field.
func (o *Offer) read(seller string, was *api.OfferSpec) (string, api.OfferSpec, error) {
	none := api.OfferSpec{}
	name, err := nameOf("offerID", o.OfferID, seller)
	if err != nil {
		return "", none, err
	}
	if o.ClusterID != "" && o.ClusterID != seller {
		return "", none, api.Errorf(api.CodeForbidden, "cluster %s may not sell for %.80q",
			seller, o.ClusterID).At("clusterID").Fix("speak for %s", seller)
	}
	if of, _, owned := strings.Cut(o.OfferID, "_"); owned && of != seller {
		return "", none, api.Errorf(api.CodeForbidden, "%.80q is the ID of an offer of cluster %.63s",
			o.OfferID, of).At("offerID").Fix("begin it with %s_, or use no _", seller)
	}
	spec := api.OfferSpec{}
	if was != nil {
		was.DeepCopyInto(&spec)
	}
	spec.Draft = o.Status != nil && !*o.Status
	spec.Type, spec.Description = o.OfferType, o.Description
	for _, text := range []struct {
		field, text string
		most        int
	}{{"offerName", o.OfferName, 256}, {"offerType", o.OfferType,
		63}, {"clusterPrettyName", o.ClusterPrettyName, 256}, {"description", o.Description, 1024}} {
		if err := showable(text.field, text.text, text.most); err != nil {
			return "", none, err
		}
	}
	if err := o.label(&spec, seller, name); err != nil {
		return "", none, err
	}
	if len(o.Plans) < 1 || len(o.Plans) > api.MaxPlans {
		return "", none, api.Invalid("plans", "%d of them", len(o.Plans)).Fix("give 1 to %d plans", api.MaxPlans)
	}
	before := spec.Plans
	spec.Plans = make([]api.Plan, len(o.Plans))
	for i := range o.Plans {
		p := &o.Plans[i]
		field := "plans[" + strconv.Itoa(i) + "]"
		planName, err := nameOf(field+".planID", p.PlanID, o.OfferID)
		if err != nil {
			return "", none, err
		}
		if j := slices.IndexFunc(before, func(b api.Plan) bool { return b.Name == planName }); j >= 0 {
			spec.Plans[i] = before[j]
		}
		if p.PlanID != o.OfferID+"_"+planName {
			spec.Labels[labelPlan+planName] = p.PlanID
		}
		if err := p.read(field, planName, &spec.Plans[i]); err != nil {
			return "", none, err
		}
	}
	if len(spec.Labels) > 32 {
		return "", none, api.Invalid("plans", "the offer would have %d labels", len(spec.Labels)).
			Fix("let the IDs of plans begin with %s_", o.OfferID)
	}
	err = market.CheckOffer(&api.SignedOffer{Protocol: api.Protocol, Seller: seller, Name: name, Version: 1, Offer: spec})
	return name, spec, err
}

// label keeps in labels what there is no field for.
func (o *Offer) label(spec *api.OfferSpec, seller, name string) error {
	labels := map[string]string{}
	maps.Copy(labels, spec.Labels)
	maps.DeleteFunc(labels, func(label, _ string) bool { return strings.HasPrefix(label, "distributed-catalog/") })
	keep := func(label, value, byDefault string) {
		if value != "" && value != byDefault {
			labels[label] = value
		}
	}
	keep(labelID, o.OfferID, seller+"_"+name)
	keep(labelName, o.OfferName, name)
	keep(labelPretty, o.ClusterPrettyName, seller)
	if slices.ContainsFunc(o.Plans, func(p Plan) bool { return p.Resources["ram"] != "" }) {
		keep(labelRAM, "true", "")
	}
	if o.Created != "" {
		created, err := o.Created.Int64()
		if err != nil || created < 0 {
			return api.Invalid("created", "%.40q is not a time", o.Created.String()).
				Fix("write milliseconds since 1970, as a whole number")
		}
		keep(labelCreated, strconv.FormatInt(created, 10), "0")
	}
	spec.Labels = labels
	return nil
}

func (p *Plan) read(field, name string, into *api.Plan) error {
	if err := showable(field+".planName", p.PlanName, 1024); err != nil {
		return err
	}
	into.Name, into.Description, into.Quantity = name, p.PlanName, 0
	if p.PlanName == name {
		into.Description = ""
	}
	if p.PlanQuantity != nil && *p.PlanQuantity != endless {
		if into.Quantity = *p.PlanQuantity; into.Quantity < 1 || into.Quantity > endless {
			return api.Invalid(field+".planQuantity", "%d cannot be sold", into.Quantity).
				Fix("give 1 to %d; set status to false to sell nothing", endless)
		}
	}
	var err error
	if into.Price, err = p.price(field, into.Price); err != nil {
		return err
	}
	resources := api.Resources{}
	for _, all := range []map[string]Amount{p.Resources, p.OtherResources} {
		for _, word := range slices.Sorted(maps.Keys(all)) {
			text := string(all[word])
			at := field + ".resources." + word
			if len(word) > 64 {
				return api.Invalid(field+".resources", "%.80q is no resource", word).
					Fix("use cpu, memory, storage, gpu or Kubernetes' own names")
			}
			if !short.MatchString(text) {
				return api.Invalid(at, "%.40q is not a quantity", text).Fix("write it as Kubernetes does: 500m, 2 or 8Gi")
			}
			amount, err := resource.ParseQuantity(text)
			if err != nil {
				return api.Invalid(at, "%.40q is not a quantity", text).Fix("write it as Kubernetes does: 500m, 2 or 8Gi")
			}
			resource := corev1.ResourceName(cmp.Or(words[word], word))
			if other, twice := resources[resource]; twice && other.Cmp(amount) != 0 {
				return api.Invalid(at, "%s is given twice, as %s and as %s", resource, other.String(), amount.String()).
					Fix("give it once")
			}
			if resource == "nvidia.com/gpu" && amount.MilliValue()%1000 != 0 {
				return api.Invalid(at, "%.40q is not a whole number of GPUs", text).Fix("write 1000m or 1 for one")
			}
			resources[resource] = amount
		}
	}
	if !equality.Semantic.DeepEqual(into.Resources, resources) {
		into.Resources = resources
	}
	return nil
}

// price is what a plan costs. Amounts that a computer's arithmetic made longer
// (0.30000000000000004) are rounded to nine digits.
func (p *Plan) price(field string, was *api.Price) (*api.Price, error) {
	text := cmp.Or(p.PlanCost.String(), "0")
	if !decimal.MatchString(text) {
		return nil, api.Invalid(field+".planCost", "%.40q is not an amount", text).
			Fix("write a decimal number such as 2 or 0.35")
	}
	amount, _ := new(big.Rat).SetString(text)
	if amount.Sign() == 0 {
		return nil, nil
	}
	price := &api.Price{Amount: plainly(amount), Currency: p.PlanCostCurrency,
		Period: api.Period(strings.TrimPrefix(p.PlanCostPeriod, "1 "))}
	if was != nil && was.Currency == price.Currency && was.Period == price.Period {
		if before, ok := new(big.Rat).SetString(was.Amount); ok && before.Cmp(amount) == 0 {
			return was, nil // "0.10" is not made "0.1": that would be another offer
		}
	}
	return price, nil
}

func showable(field, text string, most int) error {
	if utf8.RuneCountInString(text) > most || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		return api.Invalid(field, "%.40q cannot be shown", text).Fix("use at most %d printable characters", most)
	}
	return nil
}

// byProvider puts what the catalog lists under those who sell it, but for the caller and for
// sellers that are silent. brokerURL is where those are dealt with that have no connector.
func byProvider(listed []api.Envelope[api.Listing], but, brokerURL string) []Catalog {
	all := []Catalog{}
	at := map[string]int{}
	for i := range listed {
		l := &listed[i].Payload
		if l.Seller == but || !l.Fresh {
			continue
		}
		n, known := at[l.Seller]
		if !known {
			n = len(all)
			at[l.Seller] = n
			all = append(all, Catalog{Provider: provider(l, brokerURL)})
		}
		offer := showListing(l)
		created, _ := offer.Created.Int64()
		all[n].Created = max(all[n].Created, created)
		all[n].Offers = append(all[n].Offers, offer)
	}
	slices.SortFunc(all, func(a, b Catalog) int { return strings.Compare(a.ClusterID, b.ClusterID) })
	return all
}

func provider(l *api.Listing, brokerURL string) Provider {
	at := cmp.Or(l.Properties.Connector, brokerURL)
	return Provider{ClusterID: l.Seller, ClusterName: l.Seller, Endpoint: at, ClusterContractEndpoint: at}
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
