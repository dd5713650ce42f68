package ui

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// operatorRoutes are the pages of a broker's operator.
var operatorRoutes = []route{{"/{$}", (*UI).federation, map[string]act{
	"approve": memberStep("approve", "is approved."), "suspend": memberStep("suspend", "is suspended."),
	"resume": memberStep("resume", "takes part again."), "revoke": memberStep("revoke", "is revoked."),
	"remove": memberStep("remove", "is removed."), "cap": (*UI).capMember, "token": (*UI).makeToken, "delete-token": (*UI).deleteToken,
}}}

// federation reads what the operator of a broker sees.
func (u *UI) federation(ctx context.Context, r *http.Request) content {
	f := pages.Federation{}
	var all []client.Reservation
	var noState, noMembers, noTokens, noWaiting, noTrade error
	together(
		func() {
			f.State, noState = ask(ctx, u.source, question{"state", "the state of the broker"}, u.o.Broker.BrokerStatus)
		},
		func() {
			f.Members, noMembers = ask(ctx, u.source, question{"members", "the members"}, u.o.Broker.Members)
		},
		func() {
			f.Tokens, noTokens = ask(ctx, u.source, question{"tokens", "the join tokens"}, u.o.Broker.Tokens)
		},
		func() {
			all, noWaiting = ask(ctx, u.source, question{"reservations", "the requests that wait"}, u.o.Broker.Reservations)
		},
		func() { f.Trade, noTrade = ask(ctx, u.source, question{"trade", "what members share"}, u.readTrade) },
	)
	f.Count(all)
	f.NoTrade = asError(noTrade)
	f.NoState, f.NoMembers = pages.OnlyLoading(asError(noState)), pages.OnlyLoading(asError(noMembers))
	f.NoTokens, f.NoWaiting = pages.OnlyLoading(asError(noTokens)), pages.OnlyLoading(asError(noWaiting))
	for _, err := range []error{noState, noMembers, noTokens, noWaiting} {
		if e := asError(err); !pages.IsLoading(e) {
			f.Failed = cmp.Or(f.Failed, e)
		}
	}
	return content{title: "Federation", body: func(v pages.View) templ.Component { return pages.OperatorPage(v, f) }}
}

// readTrade reads what all members share, some at once.
func (u *UI) readTrade(ctx context.Context) (pages.Trade, error) {
	t := pages.NewTrade()
	err := eachPage(ctx, u.o.Broker, t.Add)
	return t, err
}

// seenMember returns the member that a form is about. Errors: NotFound; Conflict if it has changed since the form was shown.
func (u *UI) seenMember(ctx context.Context, form url.Values) (id string, err error) {
	id = form.Get("id")
	members, err := u.o.Broker.Members(ctx)
	if err != nil {
		return id, err
	}
	i := slices.IndexFunc(members, func(m api.Envelope[api.Member]) bool { return m.ID == id })
	switch {
	case i < 0:
		return id, api.Errorf(api.CodeNotFound, "%.80q is no member", id).FixBy("see", "bourse", "broker", "members")
	case members[i].Payload.Fingerprint != form.Get("fingerprint") || string(members[i].Payload.State) != form.Get("state") ||
		explain.Caps(members[i].Payload.Caps) != form.Get("caps"):
		return id, api.Errorf(api.CodeConflict, "%s has changed since you saw it: it is %s, with fingerprint %s and %s", id,
			members[i].Payload.State, members[i].Payload.Fingerprint, pages.CapsText(members[i].Payload.Caps)).
			Fix("look at it again, then decide")
	}
	return id, nil
}

// memberStep changes the state of a member, if it still is what the operator saw.
func memberStep(name, done string) act {
	return func(u *UI, ctx context.Context, r *http.Request) ([]string, string, error) {
		id, err := u.seenMember(ctx, r.PostForm)
		if err != nil {
			return nil, "", err
		}
		if (name == "revoke" || name == "remove") && strings.TrimSpace(r.PostForm.Get("typed")) != id {
			return nil, "", api.Invalid("typed", "this is not the name of the cluster").Fix("type %s", id)
		}
		_, err = u.o.Broker.SetMember(ctx, id, name)
		return nil, id + " " + done, err
	}
}

// capMember sets the bounds of a member, in place of those it had. An empty field is the bound for every member.
func (u *UI) capMember(ctx context.Context, r *http.Request) ([]string, string, error) {
	var caps api.Caps
	for field, to := range map[string]*int64{"reservations": &caps.Reservations, "pending": &caps.Pending} {
		if err := formNumber(r.PostForm, field, 0, math.MaxInt64, to); err != nil {
			return nil, "", err
		}
	}
	var priority int64
	if err := formNumber(r.PostForm, "priority", -market.MaxPriority, market.MaxPriority, &priority); err != nil {
		return nil, "", err
	}
	caps.Priority = int32(priority)
	var err error
	if caps.Resources, err = formAmounts(r); err != nil {
		return nil, "", err
	}
	id, err := u.seenMember(ctx, r.PostForm)
	if err != nil {
		return nil, "", err
	}
	m, err := u.o.Broker.SetCaps(ctx, id, caps)
	return nil, id + " may have at most: " + pages.CapsText(m.Payload.Caps) + ". What it has already stays.", err
}

// formNumber reads a whole number of a form. An empty field changes nothing. Errors: Invalid.
func formNumber(form url.Values, field string, least, most int64, to *int64) error {
	text := strings.TrimSpace(form.Get(field))
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return api.Invalid(field, "%.40q is not a whole number from %d to %d", text, least, most).Fix("leave it empty for the bound of every member")
	}
	*to = n
	return nil
}

// makeToken makes a join token, and shows it once.
func (u *UI) makeToken(ctx context.Context, r *http.Request) ([]string, string, error) {
	ttl, wrong := pages.ReadDuration("ttl", strings.TrimSpace(r.PostForm.Get("ttl")), "24h or 7d")
	if wrong != nil {
		return nil, "", wrong
	}
	t, err := u.o.Broker.CreateToken(ctx, strings.TrimSpace(r.PostForm.Get("cluster")), ttl)
	if err != nil {
		return nil, "", err
	}
	return nil, "Hand this token to the cluster's admin, in private. It is shown only here:\n" + t.Token, nil
}

func (u *UI) deleteToken(ctx context.Context, r *http.Request) ([]string, string, error) {
	id := r.PostForm.Get("id")
	return nil, "Token " + id + " is void.", u.o.Broker.DeleteToken(ctx, id)
}
