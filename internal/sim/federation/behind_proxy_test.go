package federation_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/bourse-dev/bourse/internal/sim/federation"
)

var (
	snippet   = regexp.MustCompile("(?s)```nginx\n(.*?)```")
	directive = regexp.MustCompile(`(?m)^\s*(proxy_http_version|proxy_set_header (\S+)) (\S+);`)
)

// documentedProxy returns what docs/migrate-catalog.md tells nginx to hand on: the HTTP version, and headers.
func documentedProxy(t *testing.T) (version string, headers map[string]string) {
	t.Helper()
	found := snippet.FindSubmatch(must(os.ReadFile("../../../docs/migrate-catalog.md"))(t))
	if found == nil {
		t.Fatal("docs/migrate-catalog.md has no snippet for nginx")
	}
	headers = map[string]string{}
	for _, d := range directive.FindAllStringSubmatch(string(found[1]), -1) {
		if d[2] == "" {
			version = d[3]
			continue
		}
		headers[d[2]] = d[3]
	}
	return version, headers
}

// proxy hands calls on to a member's socket with these headers, as nginx does. Without them, nginx
// hands on its own name as Host, and no Upgrade.
func proxy(t *testing.T, m *federation.Member, headers map[string]string) *httptest.Server {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", m.Socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	site := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "agent"})
		name, _, _ := net.SplitHostPort(r.In.Host)
		of := strings.NewReplacer("$http_host", r.In.Host, "$host", name,
			"$http_upgrade", r.In.Header.Get("Upgrade"), "$http_connection", r.In.Header.Get("Connection"))
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
		for header, value := range headers {
			r.Out.Header.Set(header, of.Replace(value))
		}
		r.Out.Host = r.Out.Header.Get("Host")
	}})
	t.Cleanup(site.Close)
	return site
}

// The old pages work behind nginx as docs/migrate-catalog.md sets it up: they subscribe, and change
// something. A page of another site changes nothing there.
func TestPagesBehindTheDocumentedProxy(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	version, headers := documentedProxy(t)
	if version != "1.1" {
		t.Errorf("nginx speaks HTTP %q to the agent, which cannot upgrade to a WebSocket", version)
	}
	asks := func(site *httptest.Server, origin, contentType string) int {
		t.Helper()
		r := must(http.NewRequestWithContext(t.Context(), "POST", site.URL+"/api/contracts/buy?offer-id=none&plan-id=none",
			strings.NewReader(`{"clusterID":"milan"}`)))(t)
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", contentType)
		answer := must(site.Client().Do(r))(t)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	subscribes := func(site *httptest.Server) error {
		t.Helper()
		c, answer, err := websocket.Dial(t.Context(), site.URL+"/api/subscribe",
			&websocket.DialOptions{HTTPClient: site.Client(), HTTPHeader: http.Header{"Origin": {site.URL}}})
		if err == nil {
			_ = c.CloseNow()
		} else if answer != nil && answer.Body != nil {
			_ = answer.Body.Close()
		}
		return err
	}
	site := proxy(t, f.rome, headers)
	if err := subscribes(site); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		what, origin, contentType string
		want                      int
	}{
		{"its own page", site.URL, "application/json", http.StatusNotFound}, // there is no such offer
		{"another site", "https://evil.example", "application/json", http.StatusForbidden},
		{"a form of another site", "https://evil.example", "text/plain", http.StatusForbidden},
		{"a form", site.URL, "text/plain", http.StatusBadRequest},
	} {
		if status := asks(site, c.origin, c.contentType); status != c.want {
			t.Errorf("%s: %d, want %d", c.what, status, c.want)
		}
	}

	// Each of the lines is needed.
	for header, instead := range map[string]string{"Host": "$host", "Upgrade": "", "Connection": ""} {
		without := maps.Clone(headers)
		if without[header] = instead; instead == "" {
			delete(without, header)
		}
		if subscribes(proxy(t, f.rome, without)) == nil {
			t.Errorf("a page subscribes without the line for %s", header)
		}
	}
}
