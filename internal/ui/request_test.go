package ui_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// startRome starts a federation, and the pages of rome, which borrows of milan.
func startRome(t *testing.T) (*admin, *federation.Federation) {
	t.Helper()
	_, f := startMilan(t)
	config := f.Members["rome"].Cluster.API.Config()
	acts, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	a := &admin{t: t}
	watched, err := cluster.NewWatched(t.Context(), config, func() { a.pages.Change() })
	if err != nil {
		t.Fatal(err)
	}
	everything := pages.Rights{Request: true, AskCluster: true, ChangeRequests: true, ReleaseRequests: true}
	a.pages = ui.New(ui.Options{Reads: acts.ReadFrom(watched), Acts: acts, User: "admin", Patience: patient, Log: slog.New(slog.DiscardHandler),
		May: func(context.Context, string) pages.Rights { return everything }}, "/s/0")
	t.Cleanup(a.pages.Close)
	return a, f
}

// bought returns rome's request once a reservation is in force.
func bought(t *testing.T, f *federation.Federation, name string) (o api.ResourceRequest) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); o.Status.Began == nil; time.Sleep(100 * time.Millisecond) {
		if err := f.Members["rome"].Objects.Get(t.Context(), kube.ObjectKey{Namespace: "default", Name: name}, &o); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("it is never bound: %+v", o.Status)
		}
	}
	return o
}

// Extend never shortens: what the form proposes ends later, and an earlier end is refused in the CLI's words.
func TestExtendNeverShortens(t *testing.T) {
	a, f := startRome(t)
	buy(t, f, "web", "web", "small") // for an hour
	before := bought(t, f, "web")
	const path = "/requests/default/web/extend"
	seen := form(a.until("/requests/default/web?panel=extend", `name="for" value="2h"`), path)
	a.refused(path, with(seen, "for", "30m"), "earlier: it lasts until")
	a.refused(path, with(seen, "for", "30m"), "bourse -n default extend web --for 30m --shorten")
	a.refused(path, with(seen, "for", "soon"), "is not a duration")
	a.refused(path, with(seen, "for", "99999h"), "a reservation lasts at most 365d, from when it began")
	a.done(path, with(seen, "for", "2d"))
	var after api.ResourceRequest
	if err := f.Members["rome"].Objects.Get(t.Context(), kube.ObjectKeyFromObject(&before), &after); err != nil {
		t.Fatal(err)
	}
	if longer := after.Spec.Duration.Duration - before.Spec.Duration.Duration; longer < 46*time.Hour {
		t.Errorf("it was asked for %s, and is for %s", before.Spec.Duration.Duration, after.Spec.Duration.Duration)
	}
}

// A resize takes nothing away by a 0, and has fields also for what the request does not ask for.
func TestResizeTakesNothingAway(t *testing.T) {
	a, f := startRome(t)
	made := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sized"}, Spec: api.ResourceRequestSpec{
		Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}, Duration: &metav1.Duration{Duration: time.Hour}}}}
	if err := f.Members["rome"].Objects.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	bought(t, f, "sized")
	const page, path = "/requests/default/sized", "/requests/default/sized/resize"
	shown := a.until(page+"?panel=resize", "<dt>In force</dt>")
	resize := form(shown, path)
	if !strings.Contains(shown, `name="amount.memory" value="" placeholder="none"`) {
		t.Errorf("no memory can be asked for:\n%s", shown)
	}
	a.refused(path, with(resize, "amount.cpu", "0"), "bourse -n default resize sized --resource cpu=0")
	a.done(path, with(resize, "amount.cpu", "1"))
	a.done(path, with(resize, "amount.memory", "1Gi"))
	var after api.ResourceRequest
	if err := f.Members["rome"].Objects.Get(t.Context(), kube.ObjectKeyFromObject(made), &after); err != nil {
		t.Fatal(err)
	}
	if cpu, memory := after.Spec.Resources["cpu"], after.Spec.Resources["memory"]; cpu.String() != "1" || memory.String() != "1Gi" || after.Generation != 2 {
		t.Errorf("it asks for %v, and was written %d times", after.Spec.Resources, after.Generation)
	}
}

// A change that the provider refuses stays asked for. Its page says so, and puts the request back to what is in force.
func TestARefusedChangeIsWithdrawn(t *testing.T) {
	a, f := startRome(t)
	buy(t, f, "web", "web", "small") // 8 units are on sale
	before := bought(t, f, "web")
	const page, path = "/requests/default/web", "/requests/default/web/withdraw"
	resize := form(a.until(page+"?panel=resize", "<dt>In force</dt>"), page+"/resize")
	a.done(page+"/resize", with(resize, "units", "20"))
	shown := a.until(page, "the agent asks again every minute")
	for _, text := range []string{"20 units, until", "1 unit, until", "bourse -n default resize web --units 1"} {
		if !strings.Contains(shown, text) {
			t.Errorf("the page of a refused change has no %q:\n%s", text, shown)
		}
	}
	seen := form(shown, path)
	a.refused(path, with(seen, "revision", "another"), "has changed since you saw it")
	a.done(path, seen)
	var after api.ResourceRequest
	if err := f.Members["rome"].Objects.Get(t.Context(), kube.ObjectKeyFromObject(&before), &after); err != nil {
		t.Fatal(err)
	}
	if after.Spec.Purchase.Units != 1 || after.Spec.Duration.Duration != before.Spec.Duration.Duration {
		t.Errorf("the request asks for %d units and %s", after.Spec.Purchase.Units, after.Spec.Duration.Duration)
	}
	for end := time.Now().Add(10 * time.Second); strings.Contains(a.get(page), `id="change"`); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a change that is withdrawn is shown still")
		}
	}
}

// A request that is gone has a page that says so and leads back: a second click on Release ends there, and so does an
// address with a mistake.
func TestARequestThatIsGoneLeadsBack(t *testing.T) {
	a, f := startRome(t)
	buy(t, f, "web", "web", "small")
	bought(t, f, "web")
	const path = "/requests/default/web"
	seen := form(a.until(path+"?panel=release", "No volume is deleted"), path+"/release")
	a.done(path+"/release", seen)
	const gone = "There is no request web in default"
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		code, page := a.post(path+"/release", seen)
		if strings.Contains(page, gone) && strings.Contains(page, `href="/s/0/borrowing"`) && !strings.Contains(page, "resourcerequests.bourse.dev") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a second release is answered %d:\n%s", code, page)
		}
	}
	w := httptest.NewRecorder()
	a.pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/requests/default/wbe", nil))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "There is no request wbe in default") {
		t.Errorf("a mistyped address is answered %d:\n%s", w.Code, w.Body)
	}
}
