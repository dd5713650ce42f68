package ui

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

var findActs = map[string]act{"create": (*UI).create, "propose": (*UI).propose}

// namespaceOf returns the namespace that a page is about: that of its path, else that which its form names, else that
// where a request goes that names none.
func (u *UI) namespaceOf(r *http.Request) string {
	return cmp.Or(namedNamespace(r), pages.FirstNamespace(u.o.Namespaces))
}

// namedNamespace returns the namespace that the path or the form of a page names; "" if it names none.
func namedNamespace(r *http.Request) string {
	return cmp.Or(r.PathValue("namespace"), r.URL.Query().Get("namespace"))
}

// ofNamespace returns why a request cannot be made in its namespace. Who may not make one there learns that: the agent
// only says that there is no namespace for that user.
func (u *UI) ofNamespace(ctx context.Context, namespace string, err error) error {
	e := asError(err)
	if e == nil || e.Code != api.CodeNotFound || e.Field != "namespace" {
		return err
	}
	if may, unknown := u.rights(ctx, namespace); unknown != nil || may.Request {
		return err
	}
	return api.Errorf(api.CodeForbidden, "you may not create requests in namespace %.63q", namespace).At("namespace").
		Fix("name another namespace, or ask an admin of this cluster")
}

// find weighs every cluster for what the form says. It reads the form of an act that failed, too.
func (u *UI) find(ctx context.Context, r *http.Request) content {
	typed := r.URL.Query()
	for name, values := range r.PostForm {
		typed[name] = values
	}
	r.URL.RawQuery = typed.Encode()
	f := pages.Found{Wish: pages.ReadWish(typed, pages.FirstNamespace(u.o.Namespaces))}
	var all []pages.Neighbour
	var noClusters, noOffers error
	together(
		func() { u.evaluate(ctx, typed, &f) },
		func() { all, noClusters = u.source.clusters(ctx) },
		func() { f.Offers, noOffers = u.source.offers(ctx) },
	)
	if r.URL.Query().Get("panel") == "review" && f.Wish.Create.Name == "" {
		f.Wish.Create.Name = "request-" + secret()[:8] // a form that is sent twice makes one request
	}
	f.Keep(all)
	f.NoClusters, f.OffersErr = pages.OnlyLoading(asError(noClusters)), asError(noOffers)
	f.Where = pages.Suggest(all, f.Offers)
	return content{title: "Find capacity", typing: !f.Wish.Asked || f.Wish.Wrong != nil,
		body: func(v pages.View) templ.Component { return pages.Find(v, f) }}
}

// evaluate has the agent weigh every cluster, if the form says for what.
func (u *UI) evaluate(ctx context.Context, typed url.Values, f *pages.Found) {
	if !f.Wish.Asked || f.Wish.Wrong != nil {
		return
	}
	create := f.Wish.Create
	q := question{"evaluation/" + withoutPanel(typed), "which clusters fit"}
	e, err := ask(ctx, u.source, q, func(ctx context.Context) (api.Evaluation, error) {
		e, err := u.o.Acts.DryRun(ctx, create)
		e.Clusters = pages.Shown(e.Clusters) // of 10,000 clusters, the rest is never shown
		return e, err
	})
	err = u.ofNamespace(ctx, create.Namespace, err)
	if f.Failed = asError(err); err == nil {
		f.Evaluation = &e
	} else if f.Failed.Decision != nil {
		f.Evaluation = &api.Evaluation{Decision: *f.Failed.Decision}
	}
}

// withoutPanel names an evaluation by the form, whichever panel and page of a list is open.
func withoutPanel(typed url.Values) string {
	of := url.Values{}
	for name, values := range typed {
		if !slices.Contains([]string{"panel", "done", "page", "plans", "seen"}, name) {
			of[name] = values
		}
	}
	return of.Encode()
}

// create makes the request that was reviewed. Errors: Conflict if the form asks for something else: its page is then the
// review of that.
func (u *UI) create(ctx context.Context, r *http.Request) ([]string, string, error) {
	w := pages.ReadWish(r.PostForm, pages.FirstNamespace(u.o.Namespaces))
	if w.Wrong != nil {
		return nil, "", w.Wrong
	}
	if r.PostForm.Get("seen") != pages.Seen(w.Create.Request) {
		return nil, "", api.Errorf(api.CodeConflict, "the form asks for something else than what you reviewed; nothing was made").
			Fix("read the review below: it is of the form as it is now; then create the request")
	}
	made, err := u.o.Acts.MakeRequest(ctx, w.Create)
	if err != nil {
		return nil, "", u.ofNamespace(ctx, w.Create.Namespace, err)
	}
	namespace, name, _ := strings.Cut(made.ID, "/")
	return []string{"requests", namespace, name}, "ResourceRequest " + made.ID + " made.", nil
}
