package ui

import (
	"context"
	"encoding/csv"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

var contractActs = map[string]act{"reclaim": (*UI).reclaim}

// contracts reads what was bought and sold.
func (u *UI) contracts(ctx context.Context, _ *http.Request) content {
	var d pages.Deals
	var err error
	together(func() { d.All, err = u.o.Reads.Contracts(ctx) }, func() { d.Borrowed = u.borrowed(ctx) })
	d.Failed = asError(err)
	return content{title: "Contracts", body: func(v pages.View) templ.Component { return pages.Contracts(v, d) }}
}

// contractsFile serves the contracts for a spreadsheet.
func (u *UI) contractsFile(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	status, err := u.source.status(ctx)
	self := u.self(ctx, status)
	var all []api.Envelope[api.Deal]
	if self != "" {
		all, err = u.o.Reads.Contracts(ctx)
	}
	if err != nil {
		e := asError(err)
		http.Error(w, e.Error(), http.StatusServiceUnavailable)
		return
	}
	slices.SortFunc(all, func(a, b api.Envelope[api.Deal]) int { return strings.Compare(a.ID, b.ID) })
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="contracts.csv"`)
	if err := csv.NewWriter(w).WriteAll(pages.Deals{All: all}.CSV(self)); err != nil && r.Context().Err() == nil {
		u.o.Log.Warn("a file is not whole", "page", r.URL.Path, "error", err)
	}
}

// reclaim takes back the contract that the user saw, and in no other state.
func (u *UI) reclaim(ctx context.Context, r *http.Request) ([]string, string, error) {
	id, digest := r.PostForm.Get("contract"), r.PostForm.Get("digest")
	if digest == "" {
		return nil, "", api.Invalid("digest", "the form does not say which contract the user saw").Fix("reload the page")
	}
	sold, err := u.o.Acts.Sold(ctx, id)
	if err != nil {
		return nil, "", err
	}
	sold.Payload.Status.Digest = digest
	taken, err := u.o.Acts.Reclaim(ctx, sold)
	return []string{"contracts"}, "Contract " + id + " ends at " + pages.Full(taken.At.Time) + ".", err
}
