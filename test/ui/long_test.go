package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/chromedp/chromedp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
	"github.com/bourse-dev/bourse/internal/ui/static"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// The lists of 5,000 requests and of 10,000 clusters, with hostile names among them, come by 50 lines; Next leads on.
func TestLongLists(t *testing.T) {
	var requests []client.RequestStatus
	for i := range 5_000 {
		r := client.RequestStatus{ID: fmt.Sprintf("team/r%04d", i)}
		r.Payload.Status = api.ResourceRequestStatus{State: api.Pending, Message: strings.Repeat(hostile, 200)}
		requests = append(requests, r)
	}
	var clusters []api.Envelope[api.Cluster]
	for i := range 10_000 {
		c := api.Envelope[api.Cluster]{ID: fmt.Sprintf("c%05d", i)}
		c.Payload = api.Cluster{Fresh: true, Properties: api.Properties{Region: hostile, GPUs: []string{"\u202e" + hostile}},
			Pools: map[string]api.Amounts{"general": {Available: amounts("cpu", "9", "memory", "1Gi")}}}
		clusters = append(clusters, c)
	}
	borrowed, others := pages.NewBorrowed(pages.Listed{Requests: slices.Values(requests)}), pages.Others{Clusters: pages.Neighbours(clusters)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/s/0")
		if name, is := strings.CutPrefix(path, "/static/"); is {
			static.Serve(w, r, name)
			return
		}
		v := pages.View{Prefix: "/s/0", Path: path, Query: r.URL.Query(), Title: "List", Cluster: "rome", Now: time.Now(), AsOf: time.Now()}
		page := templ.Component(pages.Clusters(v, others))
		if path == "/borrowing" {
			page = pages.Borrowing(v, borrowed)
		}
		_ = pages.Layout(v, page).Render(r.Context(), w)
	}))
	defer s.Close()
	b := newTab(t, 1280)
	must(t, b.Script(false)) // no server keeps these pages up to date
	for path, of := range map[string]string{"/borrowing": "51–100 of 5000 lines", "/clusters": "51–100 of 10000 clusters"} {
		must(t, b.Open(s.URL+"/s/0"+path))
		must(t, b.Do(chromedp.Click("nav.pager a.button")))
		must(t, b.See(of))
		if n, err := browser.Eval[int](b, `document.querySelectorAll("tbody tr").length`); err != nil || n != 50 {
			t.Errorf("%s has %d lines, %v", path, n, err)
		}
		if title, err := browser.Eval[string](b, `document.title`); err != nil || strings.Contains(title, "owned") {
			t.Errorf("%s: a foreign text ran: %q, %v", path, title, err)
		}
		over, err := browser.Eval[float64](b, `document.documentElement.scrollWidth - innerWidth`)
		if err != nil || over > 0 {
			t.Errorf("%s: %v px are outside, %v", path, over, err)
		}
	}
	must(t, b.Open("about:blank"))
}
