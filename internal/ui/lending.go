package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// lendingActs are the acts of what the cluster lends.
var lendingActs = map[string]act{"approve": (*UI).approve, "refuse": (*UI).refuse, "policy": (*UI).putPolicy}

// lending reads what the cluster lends, and what waits for approval.
func (u *UI) lending(ctx context.Context, _ *http.Request) content {
	l := pages.Lends{Failed: map[string]*api.Error{}}
	var ad api.Advertisement
	var noInstructions, noPolicy, noPeers, noAd error
	together(
		func() {
			if l.Approvals, noInstructions = u.o.Reads.Approvals(ctx); noInstructions == nil {
				l.Lent, noInstructions = u.o.Reads.Lent(ctx)
			}
		},
		func() { l.Policy, noPolicy = u.o.Reads.Sharing(ctx) },
		func() { l.Peers, noPeers = u.o.Reads.Peers(ctx) },
		func() { ad, noAd = u.o.Reads.Advertisement(ctx) },
	)
	l.Shared = ad.Status.Pools
	for kind, err := range map[string]error{"ProviderInstructions": noInstructions, "SharingPolicies": noPolicy, "Advertisements": noAd} {
		if err != nil && (kind != "Advertisements" || api.CodeOf(err) != api.CodeNotFound) {
			l.Failed[kind] = asError(err)
		}
	}
	if e := pages.OnlyLoading(asError(noPeers)); e != nil { // they only say who is suspended
		l.Failed["Peers"] = e
	}
	return content{title: "Lending", body: func(v pages.View) templ.Component { return pages.Lending(v, l) }}
}

func (u *UI) approve(ctx context.Context, r *http.Request) ([]string, string, error) {
	return u.answerApproval(ctx, r, true)
}

func (u *UI) refuse(ctx context.Context, r *http.Request) ([]string, string, error) {
	return u.answerApproval(ctx, r, false)
}

// answerApproval answers the request that the user saw, and no other.
func (u *UI) answerApproval(ctx context.Context, r *http.Request, approve bool) ([]string, string, error) {
	generation, _ := strconv.ParseInt(r.PostForm.Get("generation"), 10, 64)
	seen := api.Envelope[api.Approval]{ID: r.PostForm.Get("reservation"),
		Payload: api.Approval{Digest: r.PostForm.Get("digest"), Generation: generation}}
	done := seen.ID + " is refused."
	if approve {
		done = seen.ID + " is approved."
	}
	return []string{"lending"}, done, u.o.Acts.Answer(ctx, seen,
		api.Answer{Approve: approve, Generation: generation, Reason: r.PostForm.Get("reason")})
}

// readSpec reads the spec of an object of a kind from the YAML of a form. Errors: Invalid.
func readSpec(r *http.Request, kind string, into any) error {
	err := payload.ReadYAML([]byte(r.PostForm.Get("yaml")), into)
	if err == nil {
		return nil
	}
	wrong := api.Invalid("yaml", "it is no spec of kind %s: %s", kind, strings.TrimPrefix(err.Error(), "json: "))
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		wrong = api.Invalid(e.Field, "its value cannot be of this type: %s", e.Value)
	}
	return wrong.FixBy("see the fields", "kubectl", "explain", strings.ToLower(kind)+".spec")
}

// putPolicy replaces the SharingPolicy that the user saw.
func (u *UI) putPolicy(ctx context.Context, r *http.Request) ([]string, string, error) {
	generation, err := strconv.ParseInt(r.PostForm.Get("generation"), 10, 64)
	if err != nil {
		return nil, "", api.Invalid("generation", "the form does not say which policy it changes").Fix("reload the page")
	}
	var spec api.Sharing
	if err := readSpec(r, "SharingPolicy", &spec); err != nil {
		return nil, "", err
	}
	if r.PostForm.Get("preview") != "" {
		review, err := u.reviewPolicy(ctx, spec)
		if err == nil {
			err = &previewed{review}
		}
		return nil, "", err
	}
	return []string{"lending"}, "SharingPolicy default is written.", u.o.Acts.PutSharing(ctx, generation, spec)
}

// reviewPolicy returns what a spec would change of the policy that there is now.
func (u *UI) reviewPolicy(ctx context.Context, spec api.Sharing) (pages.PolicyReview, error) {
	out := pages.PolicyReview{After: spec}
	now, err := u.o.Reads.Sharing(ctx)
	if err != nil {
		return out, err
	}
	if now != nil {
		out.Before, out.Generation = now.Spec, now.Generation
	}
	if err := u.o.Acts.TrySharing(ctx, out.Generation, spec); err != nil {
		return out, err
	}
	shares, err := u.o.Acts.PreviewSharing(ctx, spec)
	out.Shares = &shares
	return out, err
}
