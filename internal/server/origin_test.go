package server_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// A page of another site changes nothing, with any request that a browser lets it send.
func TestOtherSitesChangeNothing(t *testing.T) {
	h := &house{}
	local := server.Local(h, h, 1000, servertest.Silent())
	site := httptest.NewServer(local.For(server.LocalUser))
	t.Cleanup(site.Close)
	host := strings.TrimPrefix(site.URL, "http://")
	name, _, _ := net.SplitHostPort(host)
	for _, c := range []struct {
		what, method, path, body string
		header                   map[string]string
		want                     api.Code
	}{
		{"a form of another site", "POST", "/evaluations", `{}`,
			map[string]string{"Origin": "https://evil.example", "Content-Type": "text/plain"}, api.CodeForbidden},
		{"JSON of another site", "POST", "/evaluations", `{}`,
			map[string]string{"Origin": "https://evil.example", "Content-Type": "application/json"}, api.CodeForbidden},
		{"no body", "POST", "/reservations/r-1/end", "", map[string]string{"Origin": "https://evil.example"}, api.CodeForbidden},
		{"a page without an address", "POST", "/reservations/r-1/end",
			"", map[string]string{"Origin": "null"}, api.CodeForbidden},
		{"another port", "POST", "/reservations/r-1/end", "", map[string]string{"Origin": "http://" + name + ":1"},
			api.CodeForbidden},
		{"what a browser calls another site", "POST", "/reservations/r-1/end",
			"", map[string]string{"Sec-Fetch-Site": "cross-site"}, api.CodeForbidden},
		{"what a browser calls the same site", "POST", "/reservations/r-1/end",
			"", map[string]string{"Sec-Fetch-Site": "same-site"}, api.CodeForbidden},
		{"a deletion", "DELETE", "/offers/web", "", map[string]string{"Origin": "https://evil.example"}, api.CodeForbidden},
		{"text", "POST", "/evaluations", `{}`, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, api.CodeInvalid},
		{"a form", "POST", "/evaluations", `{}`, map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			api.CodeInvalid},
		{"no type", "POST", "/evaluations", `{}`, nil, api.CodeInvalid},
		{"its own page", "POST", "/reservations/r-1/end", "", map[string]string{"Origin": "http://" + host}, ""},
		{"its own page, as the browser says", "POST", "/reservations/r-1/end",
			"", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://proxied"}, ""},
		{"a program", "POST", "/reservations/r-1/end", "", nil, ""},
		{"what another site reads, but cannot see", "GET", "/status",
			"", map[string]string{"Origin": "https://evil.example"}, ""},
	} {
		r, err := http.NewRequestWithContext(context.Background(),
			c.method, site.URL+api.Prefix+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var e api.Error
		_ = json.NewDecoder(answer.Body).Decode(&e)
		_ = answer.Body.Close()
		if e.Code != c.want || c.want != "" && e.Remedy == "" {
			t.Errorf("%s: %d %s, want %q", c.what, answer.StatusCode, &e, c.want)
		}
	}
}
