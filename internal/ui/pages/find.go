package pages

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/payload"
)

// mostVerdicts is how many clusters the page of a search shows.
const mostVerdicts = 100

// Wish is what the form of Find capacity says.
type Wish struct {
	Create api.RequestCreate
	// Wrong is what is wrong with it. Nil: it can be evaluated.
	Wrong *api.Error
	// Asked says that the form names something to look for.
	Asked bool
}

// amountFields are the fields of the form that name amounts.
var amountFields = []struct{ Field, Resource, Label, Example string }{
	{"cpu", "cpu", "CPU", "4"},
	{"memory", "memory", "Memory", "8Gi"},
	{"gpu", "nvidia.com/gpu", "NVIDIA GPUs", "1"},
}

// ReadAmount reads an amount that a user typed in a field. Errors: Invalid at the field, also for so few bytes that the
// unit was forgotten.
func ReadAmount(field, name, text string) (q resource.Quantity, wrong *api.Error) {
	example := "4 or 500m"
	if inBytes(name) {
		example = "8Gi or 512Mi"
	}
	q, err := payload.ParseQuantity(text)
	switch {
	case err != nil:
		return q, api.Invalid(field, "%.40q is not an amount", text).Fix("write it as Kubernetes does, such as %s", example)
	case inBytes(name) && q.Sign() > 0 && q.Value() < 1<<20:
		return q, api.Invalid(field, "%.40q is less than 1 MiB", text).Fix("write the unit, too, such as %s", example)
	}
	return q, nil
}

// inBytes reports whether a resource is counted in bytes.
func inBytes(name string) bool { return name == "memory" || strings.HasSuffix(name, "storage") }

// readAmounts reads the fields of a form that name amounts; nil if none does. Errors: Invalid at the field.
func readAmounts(q url.Values) (out api.Resources, wrong *api.Error) {
	for _, f := range amountFields {
		text := strings.TrimSpace(q.Get(f.Field))
		if text == "" {
			continue
		}
		amount, err := ReadAmount(f.Field, f.Resource, text)
		if err != nil {
			wrong = cmp.Or(wrong, err)
			continue
		}
		if out == nil {
			out = api.Resources{}
		}
		out[ResourceName(f.Resource)] = amount
	}
	return out, wrong
}

// ReadWish reads the form of Find capacity. namespace is where a request goes that names none.
func ReadWish(q url.Values, namespace string) Wish {
	w := Wish{Create: api.RequestCreate{Namespace: cmp.Or(q.Get("namespace"), namespace), Name: strings.TrimSpace(q.Get("name"))}}
	r := &w.Create.Request
	wrong := func(e *api.Error) {
		if w.Wrong == nil {
			w.Wrong = e
		}
	}
	var err *api.Error
	if r.Resources, err = readAmounts(q); err != nil {
		wrong(err)
	}
	if text := strings.TrimSpace(q.Get("for")); text != "" {
		d, err := ReadDuration("for", text, "4h, 90m or 2d")
		if err != nil {
			wrong(err)
		}
		r.Duration = &metav1.Duration{Duration: d}
	}
	r.Where, r.Strategy = q.Get("where"), api.Strategy(q.Get("strategy"))
	if text := q.Get("maxPrice"); text != "" {
		price, err := money.Read("maxPrice", text)
		if e, is := errors.AsType[*api.Error](err); is {
			wrong(e)
		}
		r.MaxPrice = price
	}
	if names := strings.FieldsFunc(q.Get("offload"), func(c rune) bool { return c == ',' || c == ' ' }); len(names) > 0 {
		w.Create.Offload = &api.Offload{Namespaces: names}
	}
	if plan := q.Get("buy"); plan != "" {
		parts := strings.Split(plan, "/")
		units, err := strconv.ParseInt(cmp.Or(q.Get("units"), "1"), 10, 64)
		if len(parts) != 3 || err != nil || units < 1 {
			wrong(api.Invalid("buy", "%.80q is not a number of units of a plan", plan).Fix("choose a plan of the list"))
		} else {
			r.Purchase = &api.Purchase{Seller: parts[0], Offer: parts[1], Plan: parts[2], Units: units, Digest: q.Get("digest")}
			r.Resources, r.MaxPrice = nil, nil
		}
	}
	if len(r.Resources) > 0 {
		_, err := amounts.ParseRequest("resources", r.Resources)
		if e, is := errors.AsType[*api.Error](err); is {
			wrong(e)
		}
	}
	w.Asked = len(r.Resources) > 0 || r.Purchase != nil
	return w
}

// Found is what a search found.
type Found struct {
	Wish       Wish
	Evaluation *api.Evaluation      // nil: nothing is asked, or it failed
	Failed     *api.Error           // why there is no evaluation
	Clusters   map[string]Neighbour // those that the page shows
	Offers     []api.Envelope[api.Listing]
	OffersErr  *api.Error
	NoClusters *api.Error // says that Clusters are on their way
	// Where are expressions that the form suggests: see [Suggest].
	Where []string
}

// mostSuggested is how many expressions over the properties of clusters the form suggests, with values of at most
// longestSuggested bytes.
const mostSuggested, longestSuggested = 60, 100

// Suggest returns expressions for the field where: over the properties that the catalog shows, and over what the broker
// knows of each cluster.
func Suggest(clusters []Neighbour, offers []api.Envelope[api.Listing]) []string {
	shown := map[string]bool{}
	ordinary := func(text string) bool { return text != "" && len(text) <= longestSuggested && visible(text) == text }
	add := func(before, after string, values ...string) {
		for _, value := range values {
			if ordinary(value) {
				shown[before+strconv.Quote(value)+after] = true
			}
		}
	}
	for _, c := range clusters {
		add("region == ", "", c.Region)
		add("", " in gpus", c.GPUs...)
	}
	for _, o := range offers {
		p := o.Payload.Properties
		add("region == ", "", p.Region)
		add("", " in zones", p.Zones...)
		add("", " in architectures", p.Architectures...)
		add("", " in gpus", p.GPUs...)
		add("", " in storageClasses", p.StorageClasses...)
		for name, value := range p.Labels {
			if ordinary(name) {
				add("labels["+strconv.Quote(name)+"] == ", "", value)
			}
		}
	}
	if len(shown) == 0 { // nobody answers: what mostly exists
		add("region == ", "", "eu")
		add("", " in architectures", "amd64")
	}
	out := slices.Sorted(maps.Keys(shown))
	return append(out[:min(len(out), mostSuggested)], "uptime >= 0.99", "honoured >= 0.95")
}

// copied returns how many offers are the agent's copy, because neither a broker nor their seller answers, and of when the
// oldest is.
func (f Found) copied() (n int, oldest time.Time) {
	for _, o := range f.Offers {
		if as := o.Payload.AsOf; as != nil {
			if n++; oldest.IsZero() || as.Time.Before(oldest) {
				oldest = as.Time
			}
		}
	}
	return n, oldest
}

// fits returns how many of the clusters that may be seen fit.
func (f Found) fits() (n, of int) {
	if f.Evaluation == nil {
		return 0, 0
	}
	d := f.Evaluation.Decision
	return d.Candidates, d.Considered - d.Hidden
}

// verdicts returns the clusters that fit, best first, then those that came closest, at most mostVerdicts.
func (f Found) verdicts() []api.Verdict {
	if f.Evaluation == nil {
		return nil
	}
	return Shown(f.Evaluation.Clusters)
}

// Shown returns the verdicts that a page shows, in memory of their own.
func Shown(all []api.Verdict) []api.Verdict { return slices.Clone(all[:min(len(all), mostVerdicts)]) }

// Keep keeps what the page shows of clusters.
func (f *Found) Keep(all []Neighbour) {
	f.Clusters = map[string]Neighbour{}
	for _, c := range f.verdicts() {
		f.Clusters[c.Cluster] = Neighbour{}
	}
	for _, n := range all {
		if _, shown := f.Clusters[n.Name]; shown {
			f.Clusters[n.Name] = n
		}
	}
}

// free returns what a cluster has left of what is asked for.
func (f Found) free(id string) string {
	pool, shown := cmp.Or(f.Wish.Create.Request.Pool, api.GeneralPool), api.Resources{}
	for _, free := range f.Clusters[id].Free {
		if _, asked := f.Wish.Create.Request.Resources[free.Of.Resource]; asked && free.Of.Pool == pool {
			shown[free.Of.Resource] = free.quantity()
		}
	}
	return Amounts(shown)
}

// onSale is one plan of an offer.
type onSale struct {
	Path, Digest, Seller, Offer string
	Plan                        api.Plan
	Left                        int64
	Units                       int64         // as many as have what is asked for, else as few as one contract may have
	Serves                      bool          // so many are left, for as long as is asked for
	Approves                    time.Duration // how long its seller's admin may take to approve a sale; 0: the agent answers at once
	cost                        int64         // of Units for as long as is asked for, in billionths of the currency
}

// onSale returns all plans on sale.
func (f Found) onSale() []onSale {
	asked, err := amounts.ParseRequest("resources", f.Wish.Create.Request.Resources)
	if err != nil {
		asked = nil
	}
	var out []onSale
	for _, o := range f.Offers {
		for _, p := range o.Payload.Offer.Plans {
			listed, ok := o.Payload.Plans[p.Name]
			if !ok {
				continue
			}
			next := onSale{Path: o.Payload.Seller + "/" + o.Payload.Name + "/" + p.Name, Digest: o.Payload.Digest,
				Seller: o.Payload.Seller, Offer: o.Payload.Name, Plan: p, Left: listed.Remaining, Units: leastUnits(p)}
			if within := o.Payload.Offer.ApproveWithin; within != nil {
				next.Approves = within.Duration
			}
			if plan, err := market.ReadPlan(&p); err == nil && len(asked) > 0 {
				next.serve(plan, asked, f.Wish.Create.Request.Duration)
			}
			out = append(out, next)
		}
	}
	return out
}

// serve notes how many units have what is asked for, and whether these can be bought.
func (o *onSale) serve(plan market.Plan, asked amounts.List, lasts *metav1.Duration) {
	units := plan.UnitsFor(asked)
	if units == 0 || plan.Pool != api.GeneralPool {
		return
	}
	o.Units = units
	o.Serves = units <= o.Left && (lasts == nil || plan.Lasts(lasts.Duration) == nil)
}

// plans returns the plans on sale, those that serve what is asked for first, then the cheapest first within a currency:
// what is free, then one currency after the other.
func (f Found) plans(now time.Time) []onSale {
	out := f.onSale()
	rates := money.RatesFor(now, api.DurationOf(f.Wish.Create.Request.Duration))
	currencies := map[string]string{} // by path
	for i, o := range out {
		if price, err := money.Parse("price", o.Plan.Price); err == nil {
			out[i].cost, currencies[o.Path] = price.Nanos(o.Units, rates), price.Currency
		}
	}
	slices.SortStableFunc(out, func(a, b onSale) int {
		if a.Serves != b.Serves {
			return map[bool]int{true: -1, false: 1}[a.Serves]
		}
		return cmp.Or(strings.Compare(currencies[a.Path], currencies[b.Path]), cmp.Compare(a.cost, b.cost),
			strings.Compare(a.Path, b.Path))
	})
	return out
}

// bought returns the plan that the form names, as it is on sale now; nil if the form names none that is.
func (f Found) bought() *onSale {
	p := f.Wish.Create.Request.Purchase
	if p == nil {
		return nil
	}
	return f.plan(p.Seller + "/" + p.Offer + "/" + p.Plan)
}

// plan returns a plan that is on sale, by its path; nil if it is not.
func (f Found) plan(path string) *onSale {
	all := f.onSale()
	i := slices.IndexFunc(all, func(o onSale) bool { return o.Path == path })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// leastUnits returns the smallest number of units that one contract of a plan may have.
func leastUnits(p api.Plan) int64 {
	if p.Units == nil {
		return 1
	}
	return max(p.Units.Min, 1)
}

// costs says what a purchase costs: "2 units, each 2 CPU, 4 GiB for 0.08 EUR/hour: 3.84 EUR in all".
func (f Found) costs(o onSale, now time.Time) string {
	request := f.Wish.Create.Request
	text := explain.Count(int(request.Purchase.Units), "unit") + ", each " + Amounts(o.Plan.Resources) + " for " + PriceText(o.Plan.Price)
	price, err := money.Parse("price", o.Plan.Price)
	if err != nil || price.Free() {
		return text
	}
	cost := price.Cost(request.Purchase.Units, now, api.DurationOf(request.Duration))
	return text + ": " + money.Text(cost, price.Currency) + " " + price.Currency + " in all"
}

// YAML returns the request as an object to apply.
func (w Wish) YAML() string {
	meta := map[string]string{"namespace": w.Create.Namespace}
	if w.Create.Name != "" {
		meta["name"] = w.Create.Name
	} else {
		meta["generateName"] = "request-"
	}
	object := map[string]any{"apiVersion": api.GroupVersion.String(), "kind": "ResourceRequest", "metadata": meta,
		"spec": api.ResourceRequestSpec{Request: w.Create.Request, Offload: w.Create.Offload}}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Command returns how a terminal makes the same request.
func (w Wish) Command() string {
	r := w.Create.Request
	args := []string{"bourse", "-n", w.Create.Namespace}
	if p := r.Purchase; p != nil {
		args = append(args, "buy", p.Seller+"/"+p.Offer+"/"+p.Plan, "--units", strconv.FormatInt(p.Units, 10))
	} else {
		args = append(args, "reserve")
		for _, f := range amountFields {
			if q, ok := r.Resources[ResourceName(f.Resource)]; ok {
				args = append(args, "--"+f.Field, q.String())
			}
		}
	}
	flag := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	if r.Duration != nil {
		flag("--for", r.Duration.Duration.String())
	}
	if r.Purchase == nil {
		flag("--where", r.Where)
		flag("--strategy", string(r.Strategy))
	}
	if p := r.MaxPrice; p != nil {
		flag("--max-price", p.Amount+p.Currency+"/"+string(p.Period))
	}
	if o := w.Create.Offload; o != nil {
		flag("--offload", strings.Join(o.Namespaces, ","))
	}
	flag("--name", w.Create.Name)
	return Quote(args...)
}

// wrong reports whether a field of the form is the one that is wrong.
func (f Found) wrong(field string) bool {
	for _, e := range []*api.Error{f.Wish.Wrong, f.Failed} {
		if e != nil && fieldLabel(e.Field) == fieldLabel(field) {
			return true
		}
	}
	return false
}

// buy returns the address where a plan is reviewed: as many units as have what is asked for, for as long as is asked for.
func (v View) buy(p onSale) templ.SafeURL {
	query := url.Values{"buy": {p.Path}, "digest": {p.Digest}, "panel": {"review"}}
	if p.Units > 1 {
		query.Set("units", strconv.FormatInt(p.Units, 10))
	}
	if least := p.Plan.MinDuration; least != nil {
		query.Set("for", hours(least.Duration))
	}
	for _, name := range []string{"for", "offload", "namespace"} {
		if value := v.Query.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	return templ.SafeURL(string(v.To("find")) + "?" + query.Encode())
}

// FirstNamespace returns where requests and Proposals are made that name no namespace: the first that the pages show, else
// default.
func FirstNamespace(shown []string) string {
	if len(shown) > 0 {
		return shown[0]
	}
	return metav1.NamespaceDefault
}

func fit(n int) string {
	if n == 1 {
		return "fits"
	}
	return "fit"
}
