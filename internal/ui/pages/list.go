package pages

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
)

// perPage is how many lines of a long list a page shows.
const perPage = 50

// span is the part of a list that a page shows: the lines from From to before To, of N. The query names its page by
// Key.
type span struct {
	Key                      string
	From, To, N, Page, Pages int
}

// spanOf returns the part of a list of n lines that the query names by key, as a number from 1. The main list of a page
// has the key "page".
func (v View) spanOf(key string, n int) span {
	s := span{Key: key, N: n, Pages: max(1, (n+perPage-1)/perPage)}
	page, _ := strconv.Atoi(v.Query.Get(key))
	s.Page = min(max(page, 1), s.Pages)
	s.From = (s.Page - 1) * perPage
	s.To = min(s.From+perPage, n)
	return s
}

// paged returns the lines of a list that a page shows.
func paged[T any](v View, key string, all []T) ([]T, span) {
	s := v.spanOf(key, len(all))
	return all[s.From:s.To], s
}

// forbidden returns the kinds that a page could not read because the user may not.
func forbidden(failed map[string]*api.Error) (kinds []string) {
	for _, kind := range slices.Sorted(maps.Keys(failed)) {
		if e := failed[kind]; e != nil && e.Code == api.CodeForbidden {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// ordered returns the column by which the query sorts, and whether its largest value is first; such as "cpu", true for
// "-cpu".
func (v View) ordered() (column string, down bool) {
	column, down = strings.CutPrefix(v.Query.Get("sort"), "-")
	return column, down
}

// sortBy returns the address that sorts by a column. A column of numbers begins with its largest; a second click turns
// the order around.
func (v View) sortBy(column string, number bool) templ.SafeURL {
	now, down := v.ordered()
	next := column
	if now == column && !down || now != column && number {
		next = "-" + column
	}
	return v.with(func(query url.Values) {
		query.Set("sort", next)
		query.Del("page")
	})
}

// orderOf returns the order of a column as aria-sort names it; "" for a column that does not order the list.
func (v View) orderOf(column string) string {
	switch now, down := v.ordered(); {
	case now != column:
		return ""
	case down:
		return "descending"
	}
	return "ascending"
}

// open returns the address that opens a panel about one thing. Without a name it closes the panel.
func (v View) open(panel, id string) templ.SafeURL {
	return v.with(func(query url.Values) {
		set(query, "panel", panel)
		set(query, "id", id)
	})
}

// on returns the address of a form about one thing. A form that fails shows its panel again.
func (v View) on(id string, to ...string) templ.SafeURL {
	return v.To(to...) + templ.SafeURL("?"+url.Values{"id": {id}}.Encode())
}
