package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// What is created is what was reviewed: a form that asks for more makes nothing, and shows the review of that.
func TestNothingIsCreatedThatWasNotReviewed(t *testing.T) {
	a, objects := withoutAgent(t)
	made := func() (all api.ResourceRequestList) {
		t.Helper()
		if err := objects.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	seen := form(a.get("/find?panel=review&buy=milan%2Fweb%2Fsmall&digest=d1&units=1&for=24h"), "/find/create")
	seen.Set("namespace", "team")
	seen.Set("for", "24h")
	seen.Set("units", "1")
	for field, value := range map[string]string{"units": "4", "for": "720h", "seen": "", "digest": "d2"} {
		a.refused("/find/create", with(seen, field, value), "something else than what you reviewed")
	}
	if all := made(); len(all.Items) > 0 {
		t.Fatalf("made is %+v", all.Items)
	}
	_, page := a.post("/find/create", with(seen, "units", "4"))
	if !strings.Contains(page, "Review the request") || !strings.Contains(page, "units: 4") {
		t.Errorf("the answer is no review of 4 units:\n%s", page)
	}
	again := with(seen, "units", "4")
	again.Set("seen", form(page, "/find/create").Get("seen"))
	again.Set("name", "web") // a name costs nothing, nor do namespaces
	again.Set("offload", "others")
	a.done("/find/create", again)
	if all := made(); len(all.Items) != 1 || all.Items[0].Name != "web" || all.Items[0].Spec.Purchase.Units != 4 {
		t.Errorf("made is %+v", all.Items)
	}
	if code, _ := a.post("/find/create", url.Values{"cpu": {"1"}}); code != http.StatusUnprocessableEntity {
		t.Errorf("a form that names nothing that was seen is answered %d", code)
	}
}
