package ui_test

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// patient is how long the pages of a test wait for what they read, unless the test is about what they show before.
const patient = 20 * time.Second

// admin is a browser of milan's admin, without a door.
type admin struct {
	t     *testing.T
	pages *ui.UI
}

func (a *admin) get(path string) string {
	a.t.Helper()
	w := httptest.NewRecorder()
	a.pages.ServeHTTP(w, httptest.NewRequestWithContext(a.t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		a.t.Fatalf("GET %s: %d\n%s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// until returns a page once it has a text. What the agent answers is up to 10 s old.
func (a *admin) until(path, text string) string {
	a.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		page := a.get(path)
		if strings.Contains(page, text) {
			return page
		}
		if time.Now().After(end) {
			a.t.Fatalf("%s never has %q:\n%s", path, text, page)
		}
	}
}

// post sends a form, and returns the answer's status and page.
func (a *admin) post(path string, form url.Values) (int, string) {
	a.t.Helper()
	r := httptest.NewRequestWithContext(a.t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	a.pages.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// refused checks that a form changes nothing, and that its page says why.
func (a *admin) refused(path string, form url.Values, why string) {
	a.t.Helper()
	if code, page := a.post(path, form); code != http.StatusUnprocessableEntity || !strings.Contains(page, why) {
		a.t.Errorf("POST %s: %d, want a refusal that says %q\n%s", path, code, why, page)
	}
}

// done checks that a form is carried out.
func (a *admin) done(path string, form url.Values) {
	a.t.Helper()
	if code, page := a.post(path, form); code != http.StatusSeeOther {
		a.t.Errorf("POST %s: %d\n%s", path, code, page)
	}
}

var field = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)"`)

// form returns the hidden fields of the form in a part of a page, from a text on.
func form(page, from string) url.Values {
	_, rest, _ := strings.Cut(page, from)
	rest, _, _ = strings.Cut(rest, "</form>")
	out := url.Values{}
	for _, f := range field.FindAllStringSubmatch(rest, -1) {
		out.Set(f[1], html.UnescapeString(f[2]))
	}
	return out
}

// waiting returns the first reservation on a page that waits for approval.
func waiting(page string) string {
	return regexp.MustCompile(`id="approval-(r-[a-z0-9]+)"`).FindStringSubmatch(page)[1]
}

// with returns a form with another value.
func with(form url.Values, name, value string) url.Values {
	out := url.Values{name: {value}}
	for other, values := range form {
		if other != name {
			out[other] = values
		}
	}
	return out
}

// startMilan starts a federation, and the pages of milan, which lends and sells to rome.
func startMilan(t *testing.T) (*admin, *federation.Federation) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	plan := func(name string) []api.Plan {
		return []api.Plan{{Name: name, Resources: api.Resources{"cpu": resource.MustParse("1")}, Quantity: 8,
			Notice: &metav1.Duration{Duration: time.Hour},
			Price:  &api.Price{Amount: "0.08", Currency: "EUR", Period: api.PeriodHour}}}
	}
	f, err := federation.Start(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler),
		&federation.Member{Options: sim.Options{Name: "rome", Nodes: 1}},
		&federation.Member{Options: sim.Options{Name: "milan", Nodes: 2, CPU: 32, Memory: 128},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}},
			Offers: map[string]api.OfferSpec{"web": {Plans: plan("small")},
				"reviewed": {Plans: plan("rack"), ApproveWithin: &metav1.Duration{Duration: time.Hour}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Stop() })
	milan := f.Members["milan"]
	for _, m := range f.Members {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.Namespace}}
		if err := m.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	seesMilan(t, f)
	acts, err := cluster.New(milan.Cluster.API.Config())
	if err != nil {
		t.Fatal(err)
	}
	a := &admin{t: t}
	watched, err := cluster.NewWatched(t.Context(), milan.Cluster.API.Config(), func() { a.pages.Change() })
	if err != nil {
		t.Fatal(err)
	}
	everything := pages.Rights{Request: true, ChangeRequests: true, ReleaseRequests: true, Propose: true, ChangePools: true,
		AskCluster: true, Lend: true, Approve: true, Sell: true, EditPeers: true, EditBrokers: true}
	a.pages = ui.New(ui.Options{Reads: acts.ReadFrom(watched), Acts: acts, User: "admin", Patience: patient, Log: slog.New(slog.DiscardHandler),
		May: func(context.Context, string) pages.Rights { return everything }}, "/s/0")
	t.Cleanup(a.pages.Close)
	return a, f
}

// seesMilan waits until rome sees what milan lends and sells. Until then an answer can be that nothing is there, and a page
// keeps that for 10 s.
func seesMilan(t *testing.T, f *federation.Federation) {
	t.Helper()
	rome := f.Members["rome"].People
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		seen, err := rome.Cluster(t.Context(), "milan")
		_, errWeb := rome.Offer(t.Context(), "milan", "web")
		_, errReviewed := rome.Offer(t.Context(), "milan", "reviewed")
		if err = errors.Join(err, errWeb, errReviewed); err == nil && len(seen.Payload.Pools[api.GeneralPool].Available) > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("rome does not see milan: %+v, %v", seen, err)
		}
	}
}

// buy has rome buy a plan.
func buy(t *testing.T, f *federation.Federation, name, offer, plan string) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		_, err = f.Members["rome"].People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: api.Request{
			Duration: &metav1.Duration{Duration: time.Hour}, Purchase: &api.Purchase{Seller: "milan", Offer: offer, Plan: plan,
				MaxPrice: &api.Price{Amount: "1", Currency: "EUR", Period: api.PeriodHour}}}})
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}

// other is the digest of something else.
const other = "0123456789abcdef"

// Each act of a provider's pages is for what the page showed, and for nothing else.
func TestActsAreForWhatThePageShowed(t *testing.T) {
	a, f := startMilan(t)
	a.until("/offers", "On sale")
	buy(t, f, "night", "reviewed", "rack")
	seen := form(a.get("/lending?panel=approve&id="+waiting(a.until("/lending", "Waits for your approval"))), "/lending/approve")
	a.refused("/lending/approve", with(seen, "digest", "another"), "does not wait for the approval of what you saw")
	a.done("/lending/approve", seen)
	if page := a.until("/lending", "consumer-rome"); strings.Contains(page, "Waits for your approval") {
		t.Error("what is approved waits still")
	}

	seen = form(a.get("/offers?panel=sale&id=web"), "/offers/sale")
	a.refused("/offers/sale", with(with(seen, "seen", "another"), "draft", "true"), "has changed since you saw it")
	a.done("/offers/sale", with(seen, "draft", "true"))
	a.until("/offers", "Put on sale")
	seen = form(a.get("/offers?panel=edit&id=web"), "/offers/edit")
	a.refused("/offers/edit", with(seen, "yaml", "plants: []"), "no spec of kind Offer")
	a.refused("/offers/edit", with(seen, "yaml", "plans: small"), "cannot be of this type: string")
	checkOfferEdit(a, f)

	a.until("/contracts", "Take back")
	row := regexp.MustCompile(`contract-(r-[a-z0-9]+)`).FindStringSubmatch(a.get("/contracts"))[1]
	seen = form(a.get("/contracts?panel=reclaim&id="+row), "/contracts/reclaim")
	a.refused("/contracts/reclaim", with(seen, "digest", other), "Conflict")
	a.done("/contracts/reclaim", seen)
	if file := a.get("/contracts.csv"); !strings.Contains(file, row+",seller,rome,milan/reviewed/rack,1,1 CPU,") {
		t.Errorf("the file has no line of the contract:\n%s", file)
	}

	policy := form(a.get("/lending?panel=policy"), "/lending/policy")
	less := with(policy, "yaml", "pools: [{name: general, percentage: 10}]")
	if code, page := a.post("/lending/policy", with(less, "preview", "true")); code != http.StatusOK ||
		!strings.Contains(page, "Nothing is written yet") || !strings.Contains(page, "percentage: 10}]</textarea>") {
		t.Errorf("a preview is answered %d:\n%s", code, page)
	}
	more := with(policy, "yaml", "pools: [{name: general, percentage: 150}]")
	a.refused("/lending/policy", with(more, "preview", "true"), "percentage") // as the API server refuses it
	if strings.Contains(a.get("/lending"), "percentage: 10") {
		t.Error("a preview wrote the policy")
	}
	a.refused("/lending/policy", with(with(policy, "generation", "99"), "yaml", "pools: [{name: general}]"), "has changed since you saw it")
	a.done("/lending/policy", with(policy, "yaml", "pools: [{name: general, percentage: 50}]"))
	a.until("/lending", "percentage: 50")
	stale := with(policy, "yaml", "pools: [{name: general, percentage: 30}]")
	if _, page := a.post("/lending/policy", stale); !strings.Contains(page, "<code>pools.general.percentage</code></td><td data-label=\"Now\">50</td><td data-label=\"After\">30<") ||
		form(page, "/lending/policy").Get("generation") != policy.Get("generation") {
		t.Errorf("a form that another change overtook can write:\n%s", page)
	}
	var kept api.SharingPolicy
	if err := f.Members["milan"].Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &kept); err != nil {
		t.Fatal(err)
	}
	kept.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "milan:default"}
	if err := f.Members["milan"].Objects.Update(t.Context(), &kept); err != nil {
		t.Fatal(err)
	}
	policy = form(a.until("/lending?panel=policy", "is kept by Argo CD as it is in Git"), "/lending/policy")
	a.refused("/lending/policy", with(policy, "yaml", "pools: [{name: general}]"), "Argo CD keeps SharingPolicy default")

	a.done("/clusters/rome/suspend", url.Values{"reason": {"the bill is open"}})
	a.until("/clusters/rome", "the bill is open")
	a.done("/clusters/rome/resume", nil)
	gitOwned := func(mark string) {
		t.Helper()
		peer := api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "rome"}}
		patch := kube.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/tracking-id":`+mark+`}}}`))
		if err := f.Members["milan"].Objects.Patch(t.Context(), &peer, patch); err != nil {
			t.Fatal(err)
		}
	}
	gitOwned(`"milan:rome"`)
	a.until("/clusters/rome", "is kept by Argo CD as it is in Git")
	a.refused("/clusters/rome/suspend", nil, "Argo CD keeps Peer rome")
	gitOwned("null")
	evict := form(a.get("/clusters/rome?panel=evict"), "/clusters/rome/evict")
	a.refused("/clusters/rome/evict", with(evict, "name", "paris"), "is not the name of the cluster")
	a.refused("/clusters/rome/evict", with(with(evict, "name", "rome"), "digest", other), "Conflict")
	a.done("/clusters/rome/evict", with(evict, "name", "rome"))
	a.refused("/clusters/rome/trust", url.Values{"fingerprint": {"SHA256:abcd"}}, "were not compared")
	a.until("/brokers", "Connected")
}

// checkOfferEdit edits a plan of the offer web by the form. Only what was reviewed is written, and only over what was seen.
func checkOfferEdit(a *admin, f *federation.Federation) {
	t := a.t
	t.Helper()
	to := "/offers/edit?id=web"
	seen := form(a.get("/offers?panel=edit&id=web"), "/offers/edit")
	seen.Set("plans.0.was", "small")
	seen.Set("plans.0.name", "small")
	seen.Set("plans.0.resources.cpu", "2")
	seen.Set("plans.0.price", "0.12EUR/hour")
	a.refused(to, with(seen, "plans.0.price", "cheap"), "plans.small.price")
	a.refused(to, with(seen, "plans.0.resources.cpu", "0"), "no positive amount")
	a.refused(to, with(seen, "type", strings.Repeat("x", 64)), "type") // as the API server refuses it
	a.refused(to, with(seen, "seen", "another"), "has changed since you saw it")
	code, page := a.post(to, seen)
	if code != http.StatusOK || !strings.Contains(page, `<td data-label="Now">0.08 EUR/hour</td><td data-label="After">0.12 EUR/hour</td>`) {
		t.Fatalf("a review is answered %d:\n%s", code, page)
	}
	reviewed := with(seen, "reviewed", form(page, "/offers/edit").Get("reviewed"))
	if code, page := a.post(to, with(reviewed, "plans.0.price", "9EUR/hour")); code != http.StatusOK || !strings.Contains(page, "9.00 EUR/hour") {
		t.Errorf("what was not reviewed is answered %d:\n%s", code, page)
	}
	web := func() (o api.Offer) {
		if err := f.Members["milan"].Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: "web"}, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if p := web().Spec.Plans[0]; p.Price.Amount != "0.08" {
		t.Errorf("a review wrote %v", p)
	}
	a.done(to, reviewed)
	if p := web().Spec.Plans[0]; p.Price.Amount != "0.12" || p.Resources.Cpu().Value() != 2 || p.Notice == nil || p.Quantity != 8 {
		t.Errorf("the plan is %+v", p) // notice is not in the form, and quantity was not sent
	}
	a.refused(to, reviewed, "has changed since you saw it")
}

// The theme that a user chose is that of the next run, and a file that says something else is none.
func TestTheme(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bourse", "theme")
	open := func() *admin {
		a := &admin{t: t}
		a.pages = ui.New(ui.Options{ThemeFile: file, Log: slog.New(slog.DiscardHandler)}, "/s/0")
		return a
	}
	a := open()
	if code, _ := a.post("/theme", url.Values{"theme": {"dark"}, "to": {"/clusters?q=a"}}); code != http.StatusSeeOther {
		t.Errorf("dark: %d", code)
	}
	if code, _ := a.post("/theme", url.Values{"theme": {"\"><script>"}}); code != http.StatusUnprocessableEntity {
		t.Errorf("a theme that does not exist: %d", code)
	}
	kept, err := os.ReadFile(file)
	if err != nil || string(kept) != "dark\n" {
		t.Errorf("the file says %q, %v", kept, err)
	}
	if got := ui.ThemeOf(open().pages); got != "dark" {
		t.Errorf("the next run has %q", got)
	}
	if err := os.WriteFile(file, []byte("\"><script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ui.ThemeOf(open().pages); got != "" {
		t.Errorf("a damaged file gives %q", got)
	}
}
