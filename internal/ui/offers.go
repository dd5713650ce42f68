package ui

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// offerActs are the acts of what the cluster sells.
var offerActs = map[string]act{
	"new": (*UI).newOffer, "edit": (*UI).editOffer, "sale": (*UI).putOnSale,
	"accept": (*UI).accept, "counter": (*UI).counter, "decline": (*UI).decline,
}

// ownOffers reads what the cluster sells, and the proposals.
func (u *UI) ownOffers(ctx context.Context, _ *http.Request) content {
	s := pages.Sales{Failed: map[string]*api.Error{}, Listed: map[string]api.Listing{},
		Answers: map[string]api.Listing{}, Git: map[string]string{}}
	var err error
	if s.Offers, err = u.o.Reads.Offers(ctx); err != nil {
		s.Failed["Offers"] = asError(err)
	}
	slices.SortFunc(s.Offers, func(a, b api.Envelope[api.OwnOffer]) int { return strings.Compare(a.ID, b.ID) })
	for _, o := range s.Offers {
		object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: u.o.Reads.AgentNamespace(ctx), Name: o.ID}}
		if by := u.o.Reads.GitOf(ctx, object); by != "" {
			s.Git[o.ID] = by
		}
	}
	if s.Proposals, err = u.proposals(ctx); err != nil {
		s.Failed["Proposals"] = asError(err)
	}
	listed, err := u.source.offers(ctx) // while no agent answers, nothing is listed
	if e := pages.OnlyLoading(asError(err)); e != nil {
		s.Failed["The catalog"] = e
	}
	for _, l := range listed {
		for _, p := range s.Proposals {
			if p.Payload.Proposal.Seller == l.Payload.Seller && p.Payload.Answer == l.Payload.Name {
				s.Answers[p.ID] = l.Payload
			}
		}
	}
	return content{title: "Offers", body: func(v pages.View) templ.Component {
		for _, l := range listed {
			if l.Payload.Seller == v.Cluster {
				s.Listed[l.Payload.Name] = l.Payload
			}
		}
		return pages.Offers(v, s)
	}}
}

// offerSpec reads the spec of an Offer of a form: its YAML, or the fields that change the one before it. Errors: Invalid.
func offerSpec(r *http.Request, before api.OfferSpec) (spec api.OfferSpec, err error) {
	if !r.PostForm.Has("yaml") {
		return pages.ReadOffer(r.PostForm, before)
	}
	if err := readSpec(r, "Offer", &spec); err != nil {
		return spec, err
	}
	return spec, match.New().CheckAccept(spec.Accept)
}

func (u *UI) newOffer(ctx context.Context, r *http.Request) ([]string, string, error) {
	name := strings.TrimSpace(r.PostForm.Get("offer"))
	spec, err := offerSpec(r, api.OfferSpec{Draft: true})
	if err != nil {
		return nil, "", err
	}
	there, err := u.o.Acts.Offers(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, o := range there {
		if o.ID == name {
			return nil, "", api.Errorf(api.CodeConflict, "offer %s exists", name).At("offer").Fix("edit it, or choose another name")
		}
	}
	_, err = u.o.Acts.PutOffer(ctx, name, spec)
	return []string{"offers"}, "Offer " + name + " is made.", err
}

// editOffer writes what the user reviewed. Without a review, or after one of something else, it shows what would change.
func (u *UI) editOffer(ctx context.Context, r *http.Request) ([]string, string, error) {
	var review pages.OfferReview
	edit := func(o *api.OfferSpec) (err error) {
		review.Before = *o.DeepCopy()
		review.After, err = offerSpec(r, review.Before)
		*o = review.After
		return err
	}
	if err := u.o.Acts.TryOffer(ctx, r.PostForm.Get("offer"), seen(r, edit)); err != nil {
		return nil, "", err
	}
	if r.PostForm.Get("reviewed") != pages.Seen(review.After) {
		return nil, "", &previewed{review}
	}
	return u.changeOffer(ctx, r, "is written. Buyers see it once the agent has published it.", edit)
}

func (u *UI) putOnSale(ctx context.Context, r *http.Request) ([]string, string, error) {
	draft := r.PostForm.Get("draft") == "true"
	done := "goes on sale."
	if draft {
		done = "is taken off sale. Contracts that were made stay."
	}
	return u.changeOffer(ctx, r, done, func(o *api.OfferSpec) error {
		o.Draft = draft
		return nil
	})
}

// changeOffer changes the offer that the user saw.
func (u *UI) changeOffer(ctx context.Context, r *http.Request, done string,
	change func(*api.OfferSpec) error) ([]string, string, error) {
	name := r.PostForm.Get("offer")
	_, err := u.o.Acts.EditOffer(ctx, name, seen(r, change))
	return []string{"offers"}, "Offer " + name + " " + done, err
}

// seen returns a change of the offer that the user saw, and of none that changed since then.
func seen(r *http.Request, change func(*api.OfferSpec) error) func(*api.OfferSpec) error {
	return func(o *api.OfferSpec) error {
		if pages.Seen(*o) != r.PostForm.Get("seen") {
			return api.Errorf(api.CodeConflict, "offer %s has changed since you saw it; nothing was written", r.PostForm.Get("offer")).
				Fix("keep your text elsewhere, reload the page, and change it again")
		}
		return change(o)
	}
}

func (u *UI) accept(ctx context.Context, r *http.Request) ([]string, string, error) {
	return u.answerProposal(ctx, r, api.ProposalAnswer{}, "is accepted: an offer is on sale that only its buyer sees.")
}

func (u *UI) decline(ctx context.Context, r *http.Request) ([]string, string, error) {
	a := api.ProposalAnswer{Decline: true}
	a.Message = r.PostForm.Get("reason")
	return u.answerProposal(ctx, r, a, "is declined.")
}

func (u *UI) counter(ctx context.Context, r *http.Request) ([]string, string, error) {
	terms, err := readTerms(r)
	if err != nil {
		return nil, "", err
	}
	if terms == (api.ProposalTerms{}) {
		return nil, "", api.Invalid("price", "the form names no other terms").Fix("name a price, units or a duration; or accept it")
	}
	return u.answerProposal(ctx, r, api.ProposalAnswer{ProposalTerms: terms},
		"is countered: an offer with your terms is on sale that only its buyer sees.")
}

// readTerms reads the terms of a form. Errors: Invalid.
func readTerms(r *http.Request) (t api.ProposalTerms, err error) {
	text := func(field string) string { return strings.TrimSpace(r.PostForm.Get(field)) }
	if text("price") != "" {
		if t.Price, err = money.Read("price", text("price")); err != nil {
			return t, err
		}
	}
	if text("units") != "" {
		if t.Units, err = strconv.ParseInt(text("units"), 10, 64); err != nil || t.Units < 1 {
			return t, api.Invalid("units", "%.40q is not a number of units", text("units")).Fix("give a number of 1 or more")
		}
	}
	if text("for") != "" {
		d, wrong := pages.ReadDuration("for", text("for"), "720h or 30d")
		if wrong != nil {
			return t, wrong
		}
		t.Duration = &metav1.Duration{Duration: d}
	}
	return t, nil
}

// propose proposes other terms for a plan on sale to its seller.
func (u *UI) propose(ctx context.Context, r *http.Request) ([]string, string, error) {
	parts := strings.Split(r.PostForm.Get("plan"), "/")
	if len(parts) != 3 {
		return nil, "", api.Invalid("plan", "the form does not name a plan").Fix("reload the page")
	}
	terms, err := readTerms(r)
	if err != nil {
		return nil, "", err
	}
	terms.Message = strings.TrimSpace(r.PostForm.Get("message"))
	sent, err := u.o.Acts.Propose(ctx, api.ProposalCreate{Seller: parts[0], Offer: parts[1], Plan: parts[2], ProposalTerms: terms})
	if err != nil {
		return nil, "", err
	}
	return []string{"offers"}, parts[0] + " has the proposal until " + pages.Full(sent.Payload.Proposal.Expires.Time) + ".", nil
}

// answerProposal answers the proposal that the user saw.
func (u *UI) answerProposal(ctx context.Context, r *http.Request, a api.ProposalAnswer,
	done string) ([]string, string, error) {
	if a.Digest = r.PostForm.Get("digest"); a.Digest == "" {
		return nil, "", api.Invalid("digest", "the form does not say which proposal the user saw").Fix("reload the page")
	}
	p, err := u.o.Acts.AnswerProposal(ctx, r.PostForm.Get("proposal"), a)
	return []string{"offers"}, "The proposal of " + p.Payload.Proposal.Buyer + " " + done, err
}
