package kubeapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// An object with an amount that no number can be made of is refused at once, as JSON, YAML and patch.
func TestEndlessAmounts(t *testing.T) {
	api := newAPI(kubeapi.Options{})
	server := httptest.NewServer(api.Handler())
	defer server.Close()
	send := func(method, path, kind, body string) (int, string) {
		call := must(http.NewRequest(method, server.URL+path, strings.NewReader(body)))
		call.Header.Set("Content-Type", kind)
		slow := time.AfterFunc(time.Minute, func() { panic(method + " takes more than a minute: " + body) })
		defer slow.Stop()
		answer := must(http.DefaultClient.Do(call))
		defer answer.Body.Close()
		return answer.StatusCode, string(must(io.ReadAll(answer.Body)))
	}
	const pods = "/api/v1/namespaces/ns/pods"
	pod := func(amount string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"overhead":{"cpu":` + amount + `}}}`
	}
	if status, text := send("POST", pods, "application/json", pod(`"1"`)); status != http.StatusCreated {
		t.Fatal(status, text)
	}
	for _, amount := range []string{`"1e-999999999"`, `"2E6000000000"`, `"` + strings.Repeat("9", 1000) + `"`} {
		for what, c := range map[string]struct{ method, path, kind, body string }{
			"JSON":  {"POST", pods, "application/json", pod(amount)},
			"YAML":  {"POST", pods, "application/yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: r}\nspec: {overhead: {cpu: " + amount + "}}\n"},
			"patch": {"PATCH", pods + "/q", "application/merge-patch+json", `{"spec":{"overhead":{"cpu":` + amount + `}}}`},
		} {
			if status, text := send(c.method, c.path, c.kind, c.body); status != http.StatusUnprocessableEntity &&
				(status != http.StatusBadRequest || !strings.Contains(text, "cpu")) {
				t.Errorf("%s with %.40s: %d %s", what, amount, status, text)
			}
		}
	}
}
