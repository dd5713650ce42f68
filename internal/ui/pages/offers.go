package pages

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
)

// Sales is what a cluster sells, and what buyers propose.
type Sales struct {
	Offers []api.Envelope[api.OwnOffer]
	// Listed has the offers as buyers see them, by name. Empty: no broker answers, or none is on sale.
	Listed map[string]api.Listing
	// Answers has the offers of sellers that answer proposals of this cluster, by the proposal's ID.
	Answers   map[string]api.Listing
	Proposals []api.Envelope[api.KnownProposal]
	// Git is what keeps offers as they are in Git, by name.
	Git map[string]string
	// Failed says what could not be read: a kind of object and why.
	Failed map[string]*api.Error
}

// offerState returns the state of an offer in a word, and why it is not on sale.
func offerState(o api.OwnOffer) (word string, tone Tone, why string) {
	c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
	switch {
	case o.Spec.Draft:
		return "Draft", Off, "It is kept off sale. Contracts that were made stay."
	case c == nil:
		return "Being published", Wait, ""
	case c.Status == metav1.ConditionTrue:
		return "On sale", OK, ""
	}
	return cmp.Or(c.Reason, "Off sale"), Warn, c.Message
}

// planRow is one plan of an offer.
type planRow struct {
	Name, Size, Price, Sold, Left string
	Terms                         string
}

func (s Sales) plans(o api.Envelope[api.OwnOffer]) []planRow {
	listing, listed := s.Listed[o.ID]
	var out []planRow
	for _, p := range o.Payload.Spec.Plans {
		row := planRow{Name: p.Name, Size: Amounts(p.Resources), Price: PriceText(p.Price), Left: "–",
			Sold: strconv.FormatInt(o.Payload.Status.Sold[p.Name], 10), Terms: planTerms(p)}
		if p.Quantity > 0 {
			row.Sold += " of " + strconv.FormatInt(p.Quantity, 10)
		}
		if listed {
			row.Left = strconv.FormatInt(listing.Plans[p.Name].Remaining, 10)
		}
		out = append(out, row)
	}
	return out
}

// planTerms returns the bounds of a plan in words.
func planTerms(p api.Plan) string {
	var out []string
	if u := p.Units; u != nil {
		units := strconv.FormatInt(u.Min, 10) + " to " + strconv.FormatInt(u.Max, 10) + " units"
		if u.Min == u.Max {
			units = explain.Count(int(u.Min), "unit")
		}
		out = append(out, units+" a contract")
	}
	switch least, most := p.MinDuration, p.MaxDuration; {
	case least != nil && most != nil && *least == *most:
		out = append(out, "for "+hours(least.Duration))
	default:
		if least != nil {
			out = append(out, "at least "+hours(least.Duration))
		}
		if most != nil {
			out = append(out, "at most "+hours(most.Duration))
		}
	}
	if p.Notice != nil {
		out = append(out, "you can take it back with "+hours(p.Notice.Duration)+" notice")
	}
	if p.Dedicated {
		out = append(out, "the whole pool")
	}
	if p.Pool != "" && p.Pool != api.GeneralPool {
		out = append(out, "pool "+p.Pool)
	}
	return strings.Join(out, ", ")
}

// exampleOffer is where a new offer begins. It is a draft, so that nothing is on sale by mistake.
const exampleOffer = `draft: true
type: compute
description: What buyers read.
plans:
- name: small
  resources:
    cpu: "2"
    memory: 4Gi
  price:
    amount: "0.10"
    currency: EUR
    period: hour
  quantity: 5
  units:
    min: 1
    max: 4
`

// offer returns an offer by its name; nil if there is none.
func (s Sales) offer(name string) *api.Envelope[api.OwnOffer] {
	for i := range s.Offers {
		if s.Offers[i].ID == name {
			return &s.Offers[i]
		}
	}
	return nil
}

// Seen stands for a spec that the user saw: a form that changes it names it.
func Seen(spec any) string {
	sum := sha256.Sum256([]byte(YAML(spec)))
	return hex.EncodeToString(sum[:])
}

// proposals returns those in which the cluster self has a side, those that wait first.
func (s Sales) proposals(of side, self string) []api.Envelope[api.KnownProposal] {
	var out []api.Envelope[api.KnownProposal]
	for _, p := range s.Proposals {
		if sideOf(p.Payload.Proposal.Seller, self) == of {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Envelope[api.KnownProposal]) int {
		_, x := proposalState(a.Payload)
		_, y := proposalState(b.Payload)
		return cmp.Or(cmp.Compare(strconv.FormatBool(x != Wait), strconv.FormatBool(y != Wait)),
			a.Payload.Proposal.Expires.Compare(b.Payload.Proposal.Expires.Time), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// proposal returns a proposal by its ID; nil if there is none.
func (s Sales) proposal(id string) *api.Envelope[api.KnownProposal] {
	for i := range s.Proposals {
		if s.Proposals[i].ID == id {
			return &s.Proposals[i]
		}
	}
	return nil
}

// answer returns the plan that a seller put on sale for a proposal of this cluster; nil if no broker shows it.
func (s Sales) answer(p api.Envelope[api.KnownProposal]) *onSale {
	l, ok := s.Answers[p.ID]
	if !ok || p.Payload.Declined {
		return nil
	}
	i := slices.IndexFunc(l.Offer.Plans, func(plan api.Plan) bool { return plan.Name == p.Payload.Proposal.Plan })
	if i < 0 {
		return nil
	}
	plan := l.Offer.Plans[i]
	return &onSale{Path: l.Seller + "/" + l.Name + "/" + plan.Name, Digest: l.Digest, Plan: plan, Units: leastUnits(plan)}
}

// proposalState returns the seller's answer in a word.
func proposalState(p api.KnownProposal) (string, Tone) {
	switch {
	case p.Declined:
		return "Declined", Off
	case p.Answer == "":
		return "Waits", Wait
	case p.Countered:
		return "Countered", OK
	}
	return "Accepted", OK
}

// terms returns the proposed terms in words.
func terms(t api.ProposalTerms) string {
	var out []string
	if t.Units > 0 {
		out = append(out, explain.Count(int(t.Units), "unit"))
	}
	if t.Price != nil {
		out = append(out, PriceText(t.Price)+" each")
	}
	if t.Duration != nil {
		out = append(out, "for "+hours(t.Duration.Duration))
	}
	if len(out) == 0 {
		return "the terms of the plan"
	}
	return strings.Join(out, ", ")
}

// saleCommands put an offer on sale, or take it off.
func saleCommands(v View, o api.Envelope[api.OwnOffer]) []string {
	verb := "unpublish"
	if o.Payload.Spec.Draft {
		verb = "publish"
	}
	return []string{Quote("bourse", "offer", verb, o.ID),
		patchCommand(v.AgentNamespace, "offer", o.ID, map[string]any{"draft": !o.Payload.Spec.Draft})}
}

// editCommands open an offer in an editor.
func editCommands(v View, o api.Envelope[api.OwnOffer]) []string {
	return []string{Quote("bourse", "offer", "edit", o.ID), Quote("kubectl", "-n", v.AgentNamespace, "edit", "offer", o.ID)}
}

// answerCommands accept, counter or decline a proposal of a buyer, with example terms and an example reason.
func answerCommands(v View, p api.Envelope[api.KnownProposal], verb string) []string {
	line := []string{"bourse", verb, p.ID, "--digest", p.Payload.Digest}
	reply := map[string]string{"accept": `{"decision":"Accept"}`,
		"counter": `{"decision":"Counter","price":{"amount":"0.09","currency":"EUR","period":"hour"}}`,
		"decline": `{"decision":"Decline","message":"no GPU is free"}`}[verb]
	switch verb {
	case "counter":
		line = append(line, "--price", "0.09EUR/hour")
	case "decline":
		line = append(line, "--reason", "no GPU is free")
	}
	return []string{Quote(line...), patchCommand(v.AgentNamespace, "proposal", p.ID, map[string]any{"answer": json.RawMessage(reply)})}
}
