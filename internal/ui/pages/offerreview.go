package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
)

// OfferReview is what a form would change of an offer.
type OfferReview struct{ Before, After api.OfferSpec }

// offerChange is one field of an offer that would change. Before or After is "" where the offer does not have the field.
type offerChange struct{ Path, Before, After string }

// changes returns the fields that would change. A plan that comes or goes is one of them, in short.
func (r OfferReview) changes() (out []offerChange) {
	before, after := facts(r.Before), facts(r.After)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		plan, within := planOf(path)
		if stays := r.Before.Plan(plan) != nil && r.After.Plan(plan) != nil; plan != "" && stays != within || before[path] == after[path] {
			continue
		}
		out = append(out, offerChange{path, before[path], after[path]})
	}
	return out
}

// factText returns what a field says, "none" for one that is not there.
func factText(text string) string {
	if text == "" {
		return "none"
	}
	return Foreign(text)
}

// planOf returns the plan that a path is about, and whether the path is that of one of its fields.
func planOf(path string) (plan string, within bool) {
	rest, is := strings.CutPrefix(path, "plans.")
	if !is {
		return "", false
	}
	plan, _, within = strings.Cut(rest, ".")
	return plan, within
}

// facts returns what an offer says, by path: each field exactly, and each plan in short.
func facts(spec api.OfferSpec) map[string]string {
	out := map[string]string{}
	for _, p := range spec.Plans {
		short := Amounts(p.Resources) + " for " + PriceText(p.Price)
		if terms := planTerms(p); terms != "" {
			short += ", " + terms
		}
		out["plans."+p.Name] = short
		out[planPath(p.Name, "price")] = PriceText(p.Price)
		for name, q := range p.Resources {
			out[planPath(p.Name, "resources."+string(name))] = strings.TrimSpace(q.String() + " " + resourceUnits[string(name)])
		}
		path := "plans." + p.Name
		p.Name, p.Price, p.Resources = "", nil, nil
		collectFacts(out, path, asJSON(p))
	}
	spec.Plans = nil
	collectFacts(out, "", asJSON(spec))
	return out
}

// asJSON returns a spec as JSON has it.
func asJSON(spec any) (out any) {
	text, _ := json.Marshal(spec) // a spec of the API is always JSON
	_ = json.Unmarshal(text, &out)
	return out
}

// collectFacts adds what is not empty below a path.
func collectFacts(to map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			collectFacts(to, strings.TrimPrefix(path+"."+name, "."), inner)
		}
	case []any:
		var texts []string
		for _, inner := range value {
			texts = append(texts, fmt.Sprint(inner))
		}
		to[path] = strings.Join(texts, ", ")
	case nil:
	default:
		if text := fmt.Sprint(value); text != "" {
			to[path] = text
		}
	}
}

// keeps says what signed contracts keep; "" if there is none.
func keeps(o api.OwnOffer) string {
	var sold []string
	for _, plan := range slices.Sorted(maps.Keys(o.Status.Sold)) {
		if n := o.Status.Sold[plan]; n > 0 {
			sold = append(sold, explain.Count(int(n), "unit")+" of "+plan)
		}
	}
	if len(sold) == 0 {
		return ""
	}
	return "Sold now: " + strings.Join(sold, ", ") + ". Their contracts keep price, amounts and notice to their end."
}

// reviewCommands make the change that was reviewed.
func reviewCommands(v View, o api.Envelope[api.OwnOffer], r OfferReview) []string {
	before, _ := json.Marshal(r.Before) // specs of the API are always JSON
	after, _ := json.Marshal(r.After)
	text, err := jsonpatch.CreateMergePatch(before, after)
	var patch map[string]any
	if err != nil || json.Unmarshal(text, &patch) != nil {
		return editCommands(v, o)
	}
	return []string{Quote("bourse", "offer", "edit", o.ID, "-f", "offer.yaml"), patchCommand(v.AgentNamespace, "offer", o.ID, patch)}
}
