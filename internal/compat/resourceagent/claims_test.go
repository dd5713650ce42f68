package resourceagent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Claims without effect are shown to callers that may see the cluster, also if the next
// advertisement lacks them.
func TestClaims(t *testing.T) {
	w := newTestFederation(t)
	w.approved("cluster-1", "cluster-2")
	amounts := `{"cpu":"4","memory":"8Gi"}`
	says := func(more string) (int, string) {
		return w.call(w.agent("cluster-1"), "POST", "/api/v1/advertisements", fmt.Sprintf(
			`{"clusterID":"cluster-1","clusterName":"one","resources":{"capacity":%[1]s,"allocatable":%[1]s,"allocated":{"cpu":"0","memory":"0"},"available":%[1]s}%[2]s}`, amounts, more))
	}
	all := `{"cost":{"renewable":true,"energyCost":0.25},"location":{"countryCode":"IT","region":"25","city":"Milan","continentCode":"EU","regionName":"Lombardy","lat":45.46,"lon":9.19,"isp":"An ISP","org":"An org","as":"AS137"},"policy":"eco","carbonIntensity":[200,210.5],"carbonLastUpdate":"2026-01-30T10:00:00Z"}`
	reads := func(by string) string {
		t.Helper()
		status, body := w.call(w.agent(by), "GET", "/api/v1/advertisements/cluster-1", "")
		var said map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &said); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		for _, ours := range []string{"clusterID", "clusterName", "resources", "timestamp"} {
			delete(said, ours)
		}
		return string(must(json.Marshal(said))(t))
	}
	sorted := func(text string) string {
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return string(must(json.Marshal(v))(t))
	}
	if got := reads("cluster-2"); got != `{}` {
		t.Errorf("before it says anything: %s", got)
	}
	if status, body := says("," + strings.Trim(all, "{}") + "}"); status == http.StatusOK {
		t.Fatalf("a body that is not JSON: %s", body)
	}
	if status, body := says("," + all[1:len(all)-1]); status != http.StatusOK ||
		!strings.Contains(body, `"energyCost":0.25`) || !strings.Contains(body, `"carbonIntensity":[200,210.5]`) {
		t.Errorf("it is answered %d %s", status, body)
	}
	if got := reads("cluster-2"); got != sorted(all) {
		t.Errorf("another reads\n%s, want\n%s", got, sorted(all))
	}
	says(`,"cost":{"renewable":true},"location":{"countryCode":"FR"}`)
	if got, want := reads("cluster-1"), sorted(`{"cost":{"renewable":true,"energyCost":0.25},"location":{"countryCode":"FR"},"policy":"eco","carbonIntensity":[200,210.5],"carbonLastUpdate":"2026-01-30T10:00:00Z"}`); got != want {
		t.Errorf("then it reads\n%s, want\n%s", got, want)
	}
	for cost, ignored := range map[string]string{
		`{"renewable":true,"EnergyCost":0.25}`:                 ``,
		`{"cpuCost":"0.04","currency":"EUR","renewable":true}`: `"ignored":["cost.cpuCost","cost.currency"]`,
		`{"\u001b[31m` + strings.Repeat("x", 100) + `":1}`:     `"ignored":["cost. [31m` + strings.Repeat("x", 59) + `"]`,
		`null`: ``,
	} {
		status, body := says(`,"cost":` + cost + `,"location":{"countryCode":"FR"}`)
		if status != http.StatusOK || ignored == "" && strings.Contains(body, "ignored") || !strings.Contains(body, ignored) {
			t.Errorf("cost %s: %d %s, want %s", cost, status, body, ignored)
		}
	}
	for field, more := range map[string]string{
		"carbonIntensity":  `,"carbonIntensity":[` + strings.Repeat("1,", 168) + `1]`,
		"carbonLastUpdate": `,"carbonLastUpdate":"` + strings.Repeat("x", 100) + `"`,
		"policy":           `,"policy":"\u202eeco"`,
		"location.org":     `,"location":{"org":"` + strings.Repeat("o", 5000) + `"}`,
		"location.lat":     `,"location":{"lat":"north"}`,
		"cost.energyCost":  `,"cost":{"energyCost":"free"}`,
	} {
		before := reads("cluster-1")
		if status, body := says(more); status != http.StatusBadRequest || !strings.Contains(body, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", field, status, body)
		}
		if after := reads("cluster-1"); after != before {
			t.Errorf("%s: refused, and now it reads %s", field, after)
		}
	}
}
