package kubeapitest

import (
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// testBadRequests sends what no client library would.
func testBadRequests(s *suite) {
	client, err := rest.HTTPClientFor(s.cfg)
	s.ok(err)
	server, _, err := rest.DefaultServerUrlFor(s.cfg)
	s.ok(err)
	const (
		maps    = "/api/v1/namespaces/NS/configmaps"
		widgets = "/apis/kubeapitest.bourse.dev/v1/namespaces/NS/widgets"
		json    = "application/json"
		patch   = "application/json-patch+json"
		merge   = "application/merge-patch+json"
		apply   = "application/apply-patch+yaml"
	)
	for _, c := range []struct {
		method, path, contentType, body string
		want                            int
	}{
		{"GET", "/api/v2/pods", "", "", 404},
		{"GET", "/apis/none.bourse.dev/v1/things", "", "", 404},
		{"GET", "/api/v1/namespaces/NS/nodes", "", "", 404},
		{"GET", maps + "/a/status", "", "", 404},
		{"GET", maps + "/a/b/c", "", "", 404},
		{"POST", "/api/v1/configmaps", json, "{}", 405},
		{"POST", maps + "/a", json, "{}", 405},
		{"DELETE", "/api/v1/nodes/a/status", "", "", 405},
		{"POST", maps, json, "", 400},
		{"POST", maps, json, "[]", 400},
		{"POST", maps, json, `{"metadata":{"name":7}}`, 400},
		{"POST", maps, json, `{"metadata":{"name":"a"},"data":{"k":1}}`, 400},
		{"POST", maps, json, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}`, 400},
		{"POST", widgets, json, "", 400},
		{"POST", widgets, json, `{"kind":"Widget","apiVersion":"kubeapitest.bourse.dev/v1","metadata":7}`, 400},
		{"POST", widgets, json, `{"kind":"Widget","apiVersion":"kubeapitest.bourse.dev/v1","metadata":{"name":7}}`, 400},
		{"POST", maps, json, `{"metadata":{"name":"a"}}`, 201},
		{"PATCH", maps + "/a", "text/plain", "{}", 415},
		{"PATCH", maps + "/a", patch, "{}", 400},
		{"PATCH", maps + "/a", patch, "[", 400},
		{"PATCH", maps + "/a", patch, "[7]", 400},
		{"PATCH", maps + "/a", patch, `[{"op":"add","path":7,"value":"v"}]`, 400},
		{"PATCH", maps + "/a", patch, `[{"op":"add","path":"/data","value":7}]`, 422},
		{"PATCH", maps + "/a", patch, `[{"op":"replace","path":"","value":[]}]`, 422},
		{"PATCH", maps + "/a?force=true", patch, "[]", 422},
		{"PATCH", maps + "/a", patch, "[]", 200},
		{"PATCH", maps + "/a", merge, "{", 400},
		{"PATCH", maps + "/a", merge, "[]", 400},
		{"PATCH", maps + "/a", merge, "7", 400},
		{"PATCH", maps + "/a", merge, `{"data":7}`, 422},
		{"PATCH", maps + "/a?force=maybe", merge, "{}", 422},
		{"PATCH", maps + "/a", "application/strategic-merge-patch+json", "7", 400},
		{"PATCH", maps + "/a?fieldManager=m", apply, "a: [", 400},
		{"PATCH", maps + "/a?fieldManager=m", apply, "{apiVersion: v1, kind: ConfigMap, metadata: {managedFields: []}}", 400},
		{"PATCH", maps + "/a?fieldManager=m", apply, "{apiVersion: v1, kind: ConfigMap, data: {k: v}}", 200},
		{"PATCH", maps + "/b?fieldManager=m", apply, "apiVersion: v1\nkind: ConfigMap\n", 400},
		{"PATCH", maps + "/b?fieldManager=m", apply, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n", 201},
		{"PUT", maps + "/b", json, "{}", 400},
		{"DELETE", maps + "/a", json, `{"propagationPolicy":"Nonsense"}`, 422},
		{"DELETE", maps + "/a", json, `{`, 400},
		{"GET", maps + "?limit=x", "", "", 400},
		{"GET", "/readyz", "", "", 200},
		{"GET", "/apis", "", "", 200},
	} {
		url := strings.TrimSuffix(server.String(), "/") + strings.Replace(c.path, "NS", s.ns, 1)
		r, err := http.NewRequestWithContext(s.ctx, c.method, url, strings.NewReader(c.body))
		s.ok(err)
		r.Header.Set("Content-Type", c.contentType)
		answer, err := client.Do(r)
		s.ok(err)
		body, err := io.ReadAll(answer.Body)
		s.ok(err)
		s.ok(answer.Body.Close())
		if answer.StatusCode != c.want {
			s.Errorf("%s %s %s: %s %s, want %d", c.method, c.path, c.body, answer.Status, body, c.want)
		}
		if c.want > 404 && !strings.Contains(strings.ReplaceAll(string(body), " ", ""), `"kind":"Status"`) {
			s.Errorf("%s %s: not a Status: %s", c.method, c.path, body)
		}
	}
}
