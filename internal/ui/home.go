package ui

import (
	"context"
	"maps"
	"net/http"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// home reads what needs attention. What the user may not see is left out.
func (u *UI) home(ctx context.Context, _ *http.Request) content {
	o := pages.Overview{Borrowed: u.borrowed(ctx)}
	o.Borrowed.Failed = maps.Clone(o.Borrowed.Failed)
	failed := func(kind string, err error) {
		if code := api.CodeOf(err); err != nil && code != api.CodeForbidden && code != api.CodeNotFound {
			o.Borrowed.Failed[kind] = asError(err)
		}
	}
	var err error
	o.Approvals, err = u.o.Reads.Approvals(ctx)
	failed("Requests that wait for approval", err)
	o.Proposals, err = u.o.Reads.Proposals(ctx)
	failed("Proposals", err)
	o.Peers, err = u.o.Reads.Peers(ctx)
	failed("Peers", err)
	ad, err := u.o.Reads.Advertisement(ctx)
	if o.Shared = ad.Status.Pools; err != nil && api.CodeOf(err) != api.CodeNotFound {
		o.NotShared = asError(err)
	}
	return content{title: "Home", body: func(v pages.View) templ.Component { return pages.Home(v, o) }}
}
