package pages

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
)

// offerForm is the form of an offer.
type offerForm struct {
	Offer *api.Envelope[api.OwnOffer] // nil: a new one
	Git   string                      // what keeps it as it is in Git; "": nothing does
}

// form returns the form of an offer. Its Offer is nil if there is none of the name.
func (s Sales) form(name string) offerForm { return offerForm{s.offer(name), s.Git[name]} }

// spec returns what the form begins with.
func (f offerForm) spec() api.OfferSpec {
	if f.Offer == nil {
		return api.OfferSpec{}
	}
	return f.Offer.Payload.Spec
}

// plan returns a plan that the form begins with. It is empty for one to add.
func (f offerForm) plan(i int) *api.Plan {
	if plans := f.spec().Plans; i < len(plans) {
		return &plans[i]
	}
	return &api.Plan{}
}

// plans returns how many plans the form shows, without the empty one to add.
func (f offerForm) plans(v View) int {
	n := max(len(f.spec().Plans), 1)
	for i := 0; v.Typed.Has(planField(i, "name")); i++ {
		if !emptyPlan(v.Typed, i) {
			n = max(n, i+1)
		}
	}
	return n
}

// formField is a field of a form about a T. Its Field is the path in T, as errors name it.
type formField[T any] struct {
	Field, Label, Example string
	text                  func(*T) string // what the form begins with
	read                  func(of *T, field, text string) error
}

// readInto reads a field of the form into a T. A text that is as the form began changes nothing, so that nothing is lost
// that the text does not show. Errors: Invalid at path.
func (f formField[T]) readInto(of *T, path string, q url.Values, name string) error {
	text := strings.TrimSpace(strings.ReplaceAll(q.Get(name), "\r\n", "\n"))
	if !q.Has(name) || text == strings.TrimSpace(f.text(of)) {
		return nil
	}
	return f.read(of, path, text)
}

// offerFields are the fields of the form of an offer, and planFields those of each plan.
var offerFields = []formField[api.OfferSpec]{
	textField("type", "A word to search for", "compute", func(o *api.OfferSpec) *string { return &o.Type }),
	textField("description", "Description for buyers", "", func(o *api.OfferSpec) *string { return &o.Description }),
}

var planFields = slices.Concat(
	[]formField[api.Plan]{textField("name", "Name of the plan", "small", func(p *api.Plan) *string { return &p.Name })},
	amountsOfAUnit(),
	[]formField[api.Plan]{
		{"price", "Price of a unit", "0.10EUR/hour", func(p *api.Plan) string {
			if p.Price == nil {
				return ""
			}
			return pricePlaceholder(p.Price)
		}, func(p *api.Plan, field, text string) (err error) {
			if p.Price = nil; text != "" {
				p.Price, err = money.Read(field, text)
			}
			return err
		}},
		countField("quantity", "Units on sale at a time", "5", func(p *api.Plan) *int64 { return &p.Quantity }),
		countField("units.min", "Fewest units of a contract", "1", func(p *api.Plan) *int64 { return &unitsOf(p).Min }),
		countField("units.max", "Most units of a contract", "4", func(p *api.Plan) *int64 { return &unitsOf(p).Max }),
		{"maxDuration", "Longest contract", "30d", func(p *api.Plan) string {
			if p.MaxDuration == nil {
				return ""
			}
			return hours(p.MaxDuration.Duration)
		}, func(p *api.Plan, field, text string) error {
			if p.MaxDuration = nil; text == "" {
				return nil
			}
			d, wrong := ReadDuration(field, text, "720h or 30d")
			if wrong != nil {
				return wrong
			}
			p.MaxDuration = &metav1.Duration{Duration: d}
			return nil
		}},
	})

func textField[T any](field, label, example string, value func(*T) *string) formField[T] {
	return formField[T]{field, label, example, func(of *T) string { return *value(of) }, func(of *T, _, text string) error {
		*value(of) = text
		return nil
	}}
}

func countField(field, label, example string, value func(*api.Plan) *int64) formField[api.Plan] {
	return formField[api.Plan]{field, label, example, func(p *api.Plan) string {
		if n := *value(p.DeepCopy()); n != 0 {
			return strconv.FormatInt(n, 10)
		}
		return ""
	}, func(p *api.Plan, path, text string) error {
		n, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
		if err != nil || n < 0 {
			return api.Invalid(path, "%.40q is not a number of units", text).Fix("give a number of 1 or more, or nothing")
		}
		*value(p) = n
		return nil
	}}
}

// unitsOf returns the bounds of the units of a plan, which has some from then on.
func unitsOf(p *api.Plan) *api.Units {
	if p.Units == nil {
		p.Units = &api.Units{}
	}
	return p.Units
}

func amountsOfAUnit() (out []formField[api.Plan]) {
	for _, f := range amountFields {
		name := ResourceName(f.Resource)
		out = append(out, formField[api.Plan]{"resources." + f.Resource, f.Label + " of a unit", f.Example, func(p *api.Plan) string {
			if q, is := p.Resources[name]; is {
				return q.String()
			}
			return ""
		}, func(p *api.Plan, path, text string) error {
			if delete(p.Resources, name); text == "" {
				return nil
			}
			q, wrong := ReadAmount(path, f.Resource, text)
			if wrong != nil {
				return wrong
			}
			if units := []string{"memory", "ephemeral-storage"}; slices.Contains(units, f.Resource) && q.Sign() > 0 && q.Value() < 1<<20 {
				return api.Invalid(path, "%.40s are bytes: less than any pod needs", text).Fix("give a unit, such as %sGi", text)
			}
			if p.Resources == nil {
				p.Resources = api.Resources{}
			}
			p.Resources[name] = q
			return nil
		}})
	}
	return out
}

// planField returns the name of a field of a plan in the form, such as "plans.0.price".
func planField(i int, field string) string { return "plans." + strconv.Itoa(i) + "." + field }

// planPath returns the path of a field of a plan, as errors name it, such as "plans.small.price".
func planPath(plan, field string) string {
	if plan == "" {
		return "plans." + field
	}
	return "plans." + plan + "." + field
}

// emptyPlan reports whether nothing is typed into a plan that a form could add.
func emptyPlan(q url.Values, i int) bool {
	return q.Get(planField(i, "was")) == "" && !slices.ContainsFunc(planFields, func(f formField[api.Plan]) bool {
		return strings.TrimSpace(q.Get(planField(i, f.Field))) != ""
	})
}

// ReadOffer reads the form of an offer. Fields that it does not have stay as they are in the offer before. Errors: Invalid
// at the field.
func ReadOffer(q url.Values, before api.OfferSpec) (api.OfferSpec, error) {
	spec := *before.DeepCopy()
	spec.Plans = nil
	for _, f := range offerFields {
		if err := f.readInto(&spec, f.Field, q, f.Field); err != nil {
			return spec, err
		}
	}
	for i := 0; q.Has(planField(i, "name")); i++ {
		if q.Has(planField(i, "remove")) || emptyPlan(q, i) {
			continue
		}
		var plan api.Plan
		if was := before.Plan(q.Get(planField(i, "was"))); was != nil {
			plan = *was.DeepCopy()
		}
		for _, f := range planFields {
			path := planPath(strings.TrimSpace(q.Get(planField(i, "name"))), f.Field)
			if err := f.readInto(&plan, path, q, planField(i, f.Field)); err != nil {
				return spec, err
			}
		}
		if u := plan.Units; u != nil && *u == (api.Units{}) {
			plan.Units = nil
		} else if u != nil {
			u.Min = max(u.Min, 1)
			u.Max = cmp.Or(u.Max, u.Min)
		}
		spec.Plans = append(spec.Plans, plan)
	}
	return spec, nil
}

// wrong reports whether a form was refused for the field of a path.
func (v View) wrong(path string) bool {
	if v.Failed == nil {
		return false
	}
	at := v.Failed.Field
	return path == at || at != "plans" && strings.HasPrefix(path, at+".") || at == "plans.name" && strings.HasSuffix(path, ".name")
}

// path returns the path of a field of a plan of the form, as errors name it.
func (f offerForm) path(v View, i int, field string) string {
	return planPath(strings.TrimSpace(v.typed(planField(i, "name"), f.plan(i).Name)), field)
}

// beyond returns the paths of what the offer says and the form does not show.
func (f offerForm) beyond() (out []string) {
	spec := f.spec()
	shown := map[string]bool{"draft": true}
	for _, field := range offerFields {
		shown[field.Field] = true
	}
	for _, p := range spec.Plans {
		shown["plans."+p.Name] = true
		for _, field := range planFields {
			shown[planPath(p.Name, field.Field)] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(facts(spec))) {
		if !shown[path] {
			out = append(out, path)
		}
	}
	return out
}

// title is that of the form.
func (f offerForm) title() string {
	if f.Offer == nil {
		return "New offer"
	}
	return "Edit " + Foreign(f.Offer.ID)
}

// target is the address that the form posts to.
func (f offerForm) target(v View) templ.SafeURL {
	if f.Offer == nil {
		return v.To("offers", "new")
	}
	return v.on(f.Offer.ID, "offers", "edit")
}

// verb is what a form's button does next: that of the YAML or of the fields.
func (f offerForm) verb(v View, yaml bool) string {
	review := v.offerReview()
	switch {
	case f.Offer == nil:
		return "Make it"
	case review != nil && yaml == v.Typed.Has("yaml") && len(review.changes()) > 0:
		return "Write it"
	}
	return "Review"
}

// posted is the id of the form that was reviewed.
func posted(v View) string {
	if v.Typed.Has("yaml") {
		return "offer-text"
	}
	return "offer-fields"
}

// yaml is what the form of the YAML begins with.
func (f offerForm) yaml() string {
	if f.Offer == nil {
		return exampleOffer
	}
	return YAML(f.spec())
}

// commands do the same as the form.
func (f offerForm) commands(v View) []string {
	if f.Offer == nil {
		return []string{"bourse offer create web --type compute --plan small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5",
			"bourse offer create web -f offer.yaml", Quote("kubectl", "-n", v.AgentNamespace, "create", "-f", "offer.yaml")}
	}
	if review := v.offerReview(); review != nil {
		return reviewCommands(v, *f.Offer, *review)
	}
	return editCommands(v, *f.Offer)
}

// planTitle names a plan of the form.
func (f offerForm) planTitle(i int) string {
	if name := f.plan(i).Name; name != "" {
		return "Plan " + Foreign(name)
	}
	return "New plan " + strconv.Itoa(i+1)
}

// offerText is what a field of an offer begins with.
func offerText(f offerForm, field formField[api.OfferSpec]) string {
	spec := f.spec()
	return field.text(&spec)
}

// offerReview returns what a form would change of an offer; nil: none is shown.
func (v View) offerReview() *OfferReview {
	if r, is := v.Preview.(OfferReview); is {
		return &r
	}
	return nil
}
