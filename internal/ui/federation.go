package ui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// operatorRoutes are the pages of a broker's operator.
var operatorRoutes = []route{{"/{$}", (*UI).federation, map[string]act{
	"approve": memberStep("approve", "is approved."), "suspend": memberStep("suspend", "is suspended."),
	"resume": memberStep("resume", "takes part again."), "revoke": memberStep("revoke", "is revoked."),
	"remove": memberStep("remove", "is removed."), "token": (*UI).makeToken, "delete-token": (*UI).deleteToken,
}}}

// federation reads what the operator of a broker sees.
func (u *UI) federation(ctx context.Context, r *http.Request) content {
	f := pages.Federation{}
	var err error
	f.State, err = ask(ctx, u.source, "state", u.o.Broker.BrokerStatus)
	if err == nil {
		f.Members, err = ask(ctx, u.source, "members", u.o.Broker.Members)
	}
	if err == nil {
		f.Tokens, err = ask(ctx, u.source, "tokens", u.o.Broker.Tokens)
	}
	if err == nil {
		var all []client.Reservation
		all, err = ask(ctx, u.source, "reservations", u.o.Broker.Reservations)
		f.Waiting = slices.DeleteFunc(slices.Clone(all), func(r client.Reservation) bool { return r.Payload.State != api.Pending })
	}
	f.Failed = asError(err)
	return content{title: "Federation", body: func(v pages.View) templ.Component { return pages.OperatorPage(v, f) }}
}

// memberStep changes the state of a member, if it still is what the operator saw.
func memberStep(name, done string) act {
	return func(u *UI, ctx context.Context, r *http.Request) ([]string, string, error) {
		id := r.PostForm.Get("id")
		members, err := u.o.Broker.Members(ctx)
		if err != nil {
			return nil, "", err
		}
		i := slices.IndexFunc(members, func(m api.Envelope[api.Member]) bool { return m.ID == id })
		switch {
		case i < 0:
			return nil, "", api.Errorf(api.CodeNotFound, "%.80q is no member", id).FixBy("see", "bourse", "broker", "members")
		case members[i].Payload.Fingerprint != r.PostForm.Get("fingerprint") ||
			string(members[i].Payload.State) != r.PostForm.Get("state"):
			return nil, "", api.Errorf(api.CodeConflict, "%s has changed since you saw it: it is %s, with fingerprint %s", id,
				members[i].Payload.State, members[i].Payload.Fingerprint).Fix("look at it again, then decide")
		case (name == "revoke" || name == "remove") && strings.TrimSpace(r.PostForm.Get("typed")) != id:
			return nil, "", api.Invalid("typed", "this is not the name of the cluster").Fix("type %s", id)
		}
		_, err = u.o.Broker.SetMember(ctx, id, name)
		return nil, id + " " + done, err
	}
}

// makeToken makes a join token, and shows it once.
func (u *UI) makeToken(ctx context.Context, r *http.Request) ([]string, string, error) {
	ttl, err := time.ParseDuration(r.PostForm.Get("ttl"))
	if err != nil || ttl <= 0 {
		return nil, "", api.Invalid("ttl", "%.40q is not a duration", r.PostForm.Get("ttl")).Fix("give one such as 24h")
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
