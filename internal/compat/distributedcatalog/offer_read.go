package distributedcatalog

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/payload"
)

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
	for i, all := range []map[string]Amount{p.Resources, p.OtherResources} {
		for _, word := range slices.Sorted(maps.Keys(all)) {
			text := string(all[word])
			path := field + ".resources." + word
			if len(word) > 64 {
				return api.Invalid(field+".resources", "%.80q is no resource", word).
					Fix("use cpu, memory, storage, gpu or Kubernetes' own names")
			}
			amount, err := payload.ParseQuantity(text)
			if err != nil || amount.Sign() < 0 {
				return api.Invalid(path, "%.40q is not a quantity", text).Fix("write it as Kubernetes does: 500m, 2 or 8Gi")
			}
			resource := corev1.ResourceName(word)
			if known := words[word]; known != "" && (i == 0 || resource != corev1.ResourceStorage) {
				resource = corev1.ResourceName(known) // the others' storage is that of volumes, as show writes it
			}
			if other, twice := resources[resource]; twice && other.Cmp(amount) != 0 {
				return api.Invalid(path, "%s is given twice, as %s and as %s", resource, other.String(), amount.String()).
					Fix("give it once")
			}
			if resource == "nvidia.com/gpu" && amount.MilliValue()%1000 != 0 {
				return api.Invalid(path, "%.40q is not a whole number of GPUs", text).Fix("write 1000m or 1 for one")
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
	index := map[string]int{}
	for i := range listed {
		l := &listed[i].Payload
		if l.Seller == but || !l.Fresh {
			continue
		}
		n, known := index[l.Seller]
		if !known {
			n = len(all)
			index[l.Seller] = n
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
	url := cmp.Or(l.Properties.Connector, brokerURL)
	return Provider{ClusterID: l.Seller, ClusterName: l.Seller, Endpoint: url, ClusterContractEndpoint: url}
}
