package pages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// An error of a form names the field by its label, however the form and the API spell it. It has no flag of the CLI.
func TestErrorsOfAFormNameItsLabels(t *testing.T) {
	for field, label := range map[string]string{"cpu": "CPU", "resources.cpu": "CPU", "request.resources.memory": "Memory",
		"resources.nvidia.com/gpu": "NVIDIA GPUs", "request.where": "Where", "for": "For how long", "request.duration": "For how long",
		"offload.namespaces": "Namespaces whose pods may run there", "join": "Token", "document.until": "document.until"} {
		v := view("/requests/team/web", "panel=extend")
		v.Failed = api.Invalid(field, "it is wrong").Fix("name another namespace (-n NAMESPACE)")
		page := render(t, pages.Request(v, pages.Asked{Namespace: "team", Name: "web"}))
		has(t, page, "<code>"+label+"</code>", "name another namespace")
		hasNot(t, page, "(-n NAMESPACE)")
	}
	v := view("/find", "cpu=1")
	f := pages.Found{Wish: pages.ReadWish(v.Query, "team"), Failed: api.Invalid("request.resources.cpu", "it is too small")}
	page := render(t, pages.Find(v, f))
	has(t, page, "<code>CPU</code>")
	if n := strings.Count(page, `aria-invalid="true"`); n != 1 {
		t.Errorf("%d fields are marked", n)
	}
}

// A duration of nothing is a duration: it is too short.
func TestADurationIsMoreThanZero(t *testing.T) {
	for text, want := range map[string]string{"0": "it must be more than 0", "-5m": "it must be more than 0", "soon": "is not a duration"} {
		w := pages.ReadWish(url.Values{"cpu": {"1"}, "for": {text}}, "team")
		if w.Wrong == nil || !strings.Contains(w.Wrong.Detail, want) {
			t.Errorf("%q is answered %v", text, w.Wrong)
		}
	}
}

// The frame names the namespace that the rights are of.
func TestTheFrameNamesTheNamespaceOfARight(t *testing.T) {
	v := view("/find", "")
	v.Namespaces, v.May = []string{"team"}, pages.Rights{Request: true}
	has(t, render(t, pages.Layout(v, pages.Refusal(nil))), "requester in team")
	v.Namespace, v.May = "demo", pages.Rights{}
	has(t, render(t, pages.Layout(v, pages.Refusal(nil))), "reader in demo")
}

// Who may not sell sees the way there shut, on each page that has it.
func TestSellingIsShutOnThePageOfContracts(t *testing.T) {
	v := view("/contracts", "")
	has(t, render(t, pages.Contracts(v, pages.Deals{})), `href="/s/0/offers">Sell something`)
	v.May.Sell = false
	has(t, render(t, pages.Contracts(v, pages.Deals{})), "disabled>Sell something", "cannot patch offers here")
}

// The review says that what no seller sells is free. Each way to prefer fits its field.
func TestTheReviewSaysThatItIsFree(t *testing.T) {
	v := view("/find", "panel=review&cpu=1")
	f := pages.Found{Wish: pages.ReadWish(v.Query, "team"), Evaluation: &api.Evaluation{Decision: api.Decision{Chosen: "milan"}}}
	page := render(t, pages.Find(v, f))
	has(t, page, "would get", ", free")
	f.Evaluation.Decision.Top = []api.Scored{{Cluster: "milan", Bought: &api.Bought{Cost: "3.00 EUR"}}}
	page = render(t, pages.Find(v, f))
	has(t, page, ", for 3.00 EUR in all")
	hasNot(t, page, ", free")
	_, options, _ := strings.Cut(page, `<select id="strategy"`)
	options, _, _ = strings.Cut(options, "</select>")
	for _, option := range strings.Split(options, "<option")[1:] {
		_, label, _ := strings.Cut(option, ">")
		if label, _, _ = strings.Cut(label, "</option>"); len(label) > 24 { // 14rem less its padding
			t.Errorf("the field cuts %q", label)
		}
	}
}
