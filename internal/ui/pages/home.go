package pages

import (
	"cmp"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/due"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/money"
)

// soon is how long before its end a reservation is named on the first page, and of a shorter one the last quarter.
const soon = 24 * time.Hour

// Overview is what the first page shows.
type Overview struct {
	Borrowed  Borrowed
	Approvals []api.Envelope[api.Approval]
	Proposals []api.Envelope[api.KnownProposal]
	Peers     []api.Envelope[api.KnownPeer] // empty: there are none, or the user may not see them
	// Shared has the amounts of the cluster's own pools. Empty: it lends nothing, or NotShared says why it is not known.
	Shared    map[string]api.Amounts
	NotShared *api.Error
}

// unknown returns what could need the user and is not known: a kind of thing and why.
func (o Overview) unknown(v View) map[string]*api.Error {
	failed := maps.Clone(o.Borrowed.Failed)
	if failed == nil {
		failed = map[string]*api.Error{}
	}
	for kind, e := range map[string]*api.Error{"Problems": v.NoProblems, "Cluster": v.NoCluster} {
		if IsLoading(e) {
			failed[kind] = e
		}
	}
	return failed
}

// need is one thing that somebody should look at.
type need struct {
	Tone        Tone
	Title, Text string
	Link        templ.SafeURL
	Do          string // what the link is called
	By          time.Time
	Then        string // what happens then; "": the title says it
	Subject     string // what has a problem
	Effect      string // what does not work because of it
	Remedy      string // what to do
	Argv        api.Command
	Quiet       bool // it comes last
}

// needs returns what needs attention, the most urgent first.
func (o Overview) needs(v View) []need {
	problems := slices.DeleteFunc(slices.Clone(v.Problems), func(p api.Problem) bool { return p.Severity == api.SeverityInfo })
	out := append(o.answers(v), o.Borrowed.breaches(v)...)
	for _, r := range o.Borrowed.rows {
		n, is := r.need(v)
		if !is {
			continue
		}
		known := slices.IndexFunc(problems, func(p api.Problem) bool { return p.Subject == r.About })
		if n.Tone != Wait && !r.Refused && known >= 0 { // the agent knows the remedy
			n.Remedy, n.Argv = nextStep(problems[known]), problems[known].Argv
			if r.Pool {
				n.Remedy, n.Argv = "open it: its page names what is wrong, the pods that wait, and how to change it", nil
			}
			if k := kindOf(problems[known]); k != nil {
				n.Effect = k.Effect
			}
			if problems[known].Severity == api.SeverityError {
				n.Tone = Bad
			}
			problems = slices.Delete(problems, known, known+1)
		}
		out = append(out, n)
	}
	for _, p := range problems {
		n := need{Tone: severityTone(p.Severity), Title: p.Code, Subject: p.Subject, Text: p.Detail, Remedy: nextStep(p), Argv: p.Argv}
		if k := kindOf(p); k != nil {
			first, _, _ := strings.Cut(k.Meaning, ". ")
			n.Title, n.Effect = strings.TrimSuffix(first, "."), k.Effect
		}
		if n.Link = v.about(p.Subject); n.Link != "" {
			n.Do = "Open"
		}
		out = append(out, n)
	}
	out = append(out, o.unconfirmed(v)...)
	rank := func(n need) int {
		switch {
		case n.Tone == Bad:
			return 0
		case !n.By.IsZero() && n.By.Sub(v.Now) < 24*time.Hour:
			return 1
		}
		return map[Tone]int{Warn: 2, Wait: 3}[n.Tone]
	}
	slices.SortStableFunc(out, func(a, b need) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(strconv.FormatBool(a.Quiet), strconv.FormatBool(b.Quiet)),
			a.By.Compare(b.By))
	})
	return out
}

// nextStep returns the remedy of a problem as it reads after "Next:".
func nextStep(p api.Problem) string { return strings.TrimPrefix(p.Remedy, "see: ") }

// answers returns what others wait for.
func (o Overview) answers(v View) (out []need) {
	for _, a := range o.Approvals {
		out = append(out, need{Tone: Wait, Title: a.Payload.Consumer + " waits for your approval",
			Text: "It asks for " + asks(a.Payload) + " (" + a.ID + ").", Link: v.opens("approve", a.ID, "lending"), Do: "Decide", By: a.Payload.By.Time,
			Then: "the request moves to another provider", Remedy: "approve it, or refuse it with a reason"})
	}
	for _, p := range o.Proposals {
		if sideOf(p.Payload.Proposal.Seller, v.Cluster) == seller && p.Payload.Answer == "" && !p.Payload.Declined {
			out = append(out, need{Tone: Wait, Title: p.Payload.Proposal.Buyer + " proposes other terms for " + p.Payload.Proposal.Offer,
				Text: "It pays " + PriceText(p.Payload.Proposal.Price) + ".", Link: v.opens("accept", p.ID, "offers"),
				Do: "Answer", By: p.Payload.Proposal.Expires.Time, Then: "it expires", Remedy: "accept it, counter it, or decline it"})
		}
	}
	return out
}

// mostNames is how many names a sentence lists.
const mostNames = 5

// unconfirmed names the clusters whose keys were pinned at the first contact, and that nobody confirmed since.
func (o Overview) unconfirmed(v View) []need {
	var pinned []string
	for _, p := range o.Peers {
		c := meta.FindStatusCondition(p.Payload.Status.Conditions, api.ConditionTrusted)
		if c != nil && c.Status == metav1.ConditionTrue && c.Reason == "FirstUse" {
			pinned = append(pinned, p.ID)
		}
	}
	n := need{Tone: Wait, Quiet: true, Remedy: "compare the fingerprint with the cluster's admin, then confirm it"}
	slices.Sort(pinned)
	switch {
	case len(pinned) == 0:
		return nil
	case len(pinned) == 1:
		n.Title, n.Text = "Nobody confirmed the key of "+pinned[0], "It was pinned at the first contact."
		n.Link, n.Do = v.opens("trust", "", "clusters", pinned[0]), "Confirm"
	default:
		n.Title = "Nobody confirmed the keys of " + explain.Count(len(pinned), "cluster")
		n.Text = "They were pinned at the first contact: " + strings.Join(pinned[:min(len(pinned), mostNames)], ", ")
		if more := len(pinned) - mostNames; more > 0 {
			n.Text += " and " + strconv.Itoa(more) + " more"
		}
		n.Link, n.Do = v.To("clusters"), "Open"
	}
	return []need{n}
}

// opens returns the address of another page with a panel open, about one thing if id names it.
func (v View) opens(panel, id string, to ...string) templ.SafeURL {
	query := url.Values{"panel": {panel}}
	set(query, "id", id)
	return v.To(to...) + "?" + templ.SafeURL(query.Encode())
}

// breaches returns what this cluster bought where the seller broke the contract, or takes it back.
func (b Borrowed) breaches(v View) (out []need) {
	for _, d := range b.Deals {
		s := d.Payload.Status
		n := need{Link: v.To("contracts"), Do: "Open"}
		switch {
		case sideOf(s.Terms.Seller, v.Cluster) != buyer: // who sold it knows
			continue
		case s.Reason == api.ReasonRevokedByProvider:
			n.Tone, n.Title, n.Text = Bad, s.Terms.Seller+" broke the contract of "+s.Terms.Offer, "It ended early, against its terms."
			n.Remedy = "find capacity elsewhere; its contract says what is due"
		case s.Reclaimed != nil && !s.State.Over():
			n.Tone, n.Title, n.Text, n.By = Warn, s.Terms.Seller+" takes "+s.Terms.Offer+" back", "Its notice runs.", s.Reclaimed.Time
			n.Remedy = "move its pods before then"
		default:
			continue
		}
		out = append(out, n)
	}
	return out
}

// need returns why somebody should look at what a line shows, and whether anybody should.
func (r borrowedRow) need(v View) (need, bool) {
	n := need{Tone: Wait, Text: r.Why, Link: v.To("requests", r.Namespace, r.Name)}
	if r.Pool {
		n.Link = v.To("pools", r.Name)
	}
	switch {
	case r.Tone == Bad || r.Tone == Warn:
		n.Tone, n.Title, n.Do = r.Tone, r.fault(), "Open"
		if r.Refused {
			n.Remedy, n.Link = "withdraw the change on the page of the request, or ask for less", n.Link+"#change"
		} else if r.State == string(api.Rejected) {
			n.Remedy = "make a new request for less; the page of this one says what each cluster lacks"
		} else if r.Early {
			n.Remedy = "make another request, if you still need it; then remove this one"
		} else if r.Unserved {
			n.Remedy = "do what the message names; the page of the pool has each reason"
		} else if r.Fault != "" {
			n.Remedy = "change what the message names; the page of the request has the whole message"
		}
	case r.Confirm:
		n.Title, n.Do = "Request "+named(r.Name)+" waits for your confirmation", "Confirm"
		n.Link = v.opens("confirm", "", "requests", r.Namespace, r.Name)
	case r.State == string(api.Pending) && r.Why != "":
		n.Title, n.Do = "Request "+named(r.Name)+" waits for capacity", "Open"
		n.Remedy = "change the request, or let it wait; its page says what each cluster lacks"
	case !r.Pool && (r.Tone == OK || r.State == string(api.Reserved)) && r.endsSoon(v.Now):
		n.Title, n.Do, n.By = "Request "+named(r.Name)+" ends soon", "Extend", r.Ends
		n.Text = "It has capacity of " + strings.Join(r.Provider, ", ") + " until " + Full(r.Ends) + "."
		n.Remedy, n.Link = "extend it, if you still need it", v.opens("extend", "", "requests", r.Namespace, r.Name)
	default:
		return n, false
	}
	return n, true
}

// endsSoon reports whether somebody who needs it longer should extend it now.
func (r borrowedRow) endsSoon(now time.Time) bool {
	within := soon
	if whole := r.Ends.Sub(r.Began); !r.Began.IsZero() {
		within = min(within, whole/4)
	}
	return r.Ends.Sub(now) < within
}

// fault says in a few words what is wrong with what a line shows.
func (r borrowedRow) fault() string {
	switch {
	case r.Pool && r.Limited:
		return "VirtualNodePool " + named(r.Name) + " is too small for its pods"
	case r.Unserved:
		return "VirtualNodePool " + named(r.Name) + " cannot serve pods that wait"
	case r.Pool && r.State == "Deleting":
		return "VirtualNodePool " + named(r.Name) + " is being deleted"
	case r.Pool:
		return "VirtualNodePool " + named(r.Name) + " is not as it should be"
	case r.Early:
		return "Request " + named(r.Name) + " ended early"
	case r.Refused:
		return "The change of request " + named(r.Name) + " is refused"
	case r.Fault == api.ConditionOffloaded:
		return "Request " + named(r.Name) + ": a namespace is not offloaded to " + strings.Join(r.Provider, ", ")
	case r.Fault == api.ConditionReflected:
		return "Request " + named(r.Name) + ": not all that pods need is copied to " + strings.Join(r.Provider, ", ")
	case r.Fault != "":
		return "Request " + named(r.Name) + ": some pods cannot run at " + strings.Join(r.Provider, ", ")
	case r.State == string(api.Active):
		return "Request " + named(r.Name) + ": no new pod can run at " + strings.Join(r.Provider, ", ")
	}
	return "Request " + named(r.Name) + " is " + r.State
}

// named sets the name of an object apart from the words around it.
func named(name string) string { return "“" + name + "”" }

// about returns the page of what a problem names as its subject; "" if there is none.
func (v View) about(subject string) templ.SafeURL {
	kind, name, _ := strings.Cut(subject, " ")
	switch kind {
	case "cluster":
		return v.To("clusters", name)
	case "VirtualNodePool":
		return v.To("pools", name)
	case "request":
		namespace, name, _ := strings.Cut(name, "/")
		return v.To("requests", namespace, name)
	case "SharingPolicy":
		return v.To("lending")
	case "broker":
		return v.To("brokers")
	case "Offer":
		return v.To("offers")
	}
	return ""
}

// kindOf returns what is documented of a problem; nil if it is not, because the agent is newer.
func kindOf(p api.Problem) *health.Kind {
	for i := range health.Kinds {
		if health.Kinds[i].Code == p.Code {
			return &health.Kinds[i]
		}
	}
	return nil
}

// add adds resources to others.
func add(to, more api.Resources) {
	for name, q := range more {
		sum := to[name]
		sum.Add(q)
		to[name] = sum
	}
}

// nothing says what of borrowed and lent is known to be nothing, where no resource is shown.
func (o Overview) nothing() string {
	switch borrows := o.Borrowed.Failed["ResourceRequests"] == nil; {
	case borrows && o.NotShared == nil:
		return "Nothing is borrowed, and nothing is lent."
	case borrows:
		return "Nothing is borrowed."
	case o.NotShared == nil:
		return "Nothing is lent."
	}
	return ""
}

// balance is one resource that is lent or borrowed.
type balance struct {
	Name                  string
	Borrowed, Lent, Free  string
	LentPart, SharedWhole float64
}

// balances returns what is borrowed, lent and free, by resource.
func (o Overview) balances() []balance {
	borrowed, lent, free, shared := o.Borrowed.sum, api.Resources{}, api.Resources{}, api.Resources{}
	for _, p := range o.Shared {
		add(lent, p.Reserved)
		add(free, p.Available)
		add(shared, p.Shared)
	}
	var out []balance
	for _, name := range names(borrowed, lent, shared) {
		text := func(r api.Resources) string { return Amounts(api.Resources{name: r[name]}) }
		whole, part := shared[name], lent[name]
		out = append(out, balance{resourceLabel(string(name)), text(borrowed), text(lent), text(free),
			part.AsApproximateFloat64(), whole.AsApproximateFloat64()})
	}
	return out
}

// moneyRow is what a cluster pays, or earns, in one currency. Both amounts have their currency.
type moneyRow struct{ What, Hour, SoFar string }

// money returns what the contracts that still exist cost in the hour from now on and so far, by currency and side.
func (o Overview) money(v View) (out []moneyRow) {
	hour, so := due.SumUpHour(o.Borrowed.Deals, v.Cluster, v.Now), due.SumUp(o.Borrowed.Deals, v.Cluster)
	var currencies []string
	for _, s := range slices.Concat(hour, so) {
		currencies = append(currencies, s.Currency)
	}
	slices.Sort(currencies)
	for _, currency := range slices.Compact(currencies) {
		in := func(all []due.Sum) due.Sum {
			if i := slices.IndexFunc(all, func(s due.Sum) bool { return s.Currency == currency }); i >= 0 {
				return all[i]
			}
			return due.Sum{Bought: new(big.Rat), Sold: new(big.Rat)}
		}
		row := func(what string, hour, soFar *big.Rat) {
			if hour.Sign() != 0 || soFar.Sign() != 0 {
				out = append(out, moneyRow{what, moneyText(hour, currency) + " " + currency, moneyText(soFar, currency) + " " + currency})
			}
		}
		row("Pays", in(hour).Bought, in(so).Bought)
		row("Earns", in(hour).Sold, in(so).Sold)
	}
	return out
}

// moneyText returns an amount of money in a currency.
func moneyText(amount *big.Rat, currency string) string { return money.Text(amount, currency) }
