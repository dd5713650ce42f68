package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/payload"
)

// PolicyReview is what a form would change of a SharingPolicy, and what that would change of what is shared.
type PolicyReview struct {
	Before, After api.Sharing
	// Generation is that of Before: the form may write over no later one.
	Generation int64
	Shares     *api.SharingPreview
}

// policyReview returns what the form with this text would change, if the policy is another one than the form began with.
func (l Lends) policyReview(v View) *PolicyReview {
	if r, is := v.Preview.(PolicyReview); is {
		return &r
	}
	if v.Failed == nil || !v.Typed.Has("yaml") || l.seenGeneration(v) == l.generation() {
		return nil
	}
	r := &PolicyReview{Generation: l.seenGeneration(v)}
	if l.Policy != nil {
		r.Before = l.Policy.Spec
	}
	if payload.ReadYAML([]byte(v.Typed.Get("yaml")), &r.After) != nil {
		return nil
	}
	return r
}

// seenGeneration returns the generation that the user of the form saw.
func (l Lends) seenGeneration(v View) int64 {
	if r, is := v.Preview.(PolicyReview); is {
		return r.Generation
	}
	seen, err := strconv.ParseInt(v.typed("generation", ""), 10, 64)
	if err != nil {
		return l.generation()
	}
	return seen
}

// changes returns the fields that would change.
func (r PolicyReview) changes() []fieldChange {
	before, after := map[string]string{}, map[string]string{}
	collectFacts(before, "", asJSON(r.Before))
	collectFacts(after, "", asJSON(r.After))
	return changed(before, after)
}

// changed returns the fields in which two specs differ.
func changed(before, after map[string]string) (out []fieldChange) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before[path] != after[path] {
			out = append(out, fieldChange{path, before[path], after[path]})
		}
	}
	return out
}

// OfferReview is what a form would change of an offer.
type OfferReview struct{ Before, After api.OfferSpec }

// fieldChange is one field that would change. Before or After is "" where a spec does not have the field.
type fieldChange struct{ Path, Before, After string }

// changes returns the fields that would change. A plan that comes or goes is one of them, in short.
func (r OfferReview) changes() []fieldChange {
	return slices.DeleteFunc(changed(facts(r.Before), facts(r.After)), func(c fieldChange) bool {
		plan, within := planOf(c.Path)
		stays := r.Before.Plan(plan) != nil && r.After.Plan(plan) != nil
		return plan != "" && stays != within
	})
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
			element, _ := inner.(map[string]any)
			name, named := element["name"].(string)
			switch {
			case named: // its other fields have its name in their path
				delete(element, "name")
				collectFacts(to, strings.TrimPrefix(path+"."+name, "."), element)
				texts = append(texts, name)
			case element != nil:
				text, _ := json.Marshal(element) // it came from JSON
				texts = append(texts, string(text))
			default:
				texts = append(texts, fmt.Sprint(inner))
			}
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
