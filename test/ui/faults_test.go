package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/ui/pages"
	"github.com/bourse-dev/bourse/internal/ui/static"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// home is what the first page shows of rome, where all is well until a fault changes something.
type home struct {
	view      pages.View
	web       client.RequestStatus // has capacity of milan
	pool      api.Envelope[api.KnownVirtualNodePool]
	deal      api.Envelope[api.Deal]
	approvals []api.Envelope[api.Approval]
}

func wellHome(now time.Time) *home {
	h := &home{view: pages.View{Prefix: "/s/0", Path: "/", Title: "Home", Cluster: "rome", User: "ada", Now: now, AsOf: now,
		May: pages.Rights{Request: true, ChangeRequests: true, ReleaseRequests: true, Propose: true, ChangePools: true,
			AskCluster: true, Lend: true, Approve: true, Sell: true, EditPeers: true, EditBrokers: true}}}
	h.web.ID = "shop/web"
	h.web.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
		Resources: amounts("cpu", "8", "memory", "16Gi"), Until: &metav1.Time{Time: now.Add(9 * 24 * time.Hour)}}
	h.pool.ID = "burst"
	h.pool.Payload.Status = api.VirtualNodePoolStatus{Used: amounts("cpu", "5"), Reserved: amounts("cpu", "8"),
		Providers: []api.PoolProvider{{Name: "paris", Until: metav1.Time{Time: now.Add(5 * 24 * time.Hour)}}}}
	h.deal.Payload.Spec.Reservation = "r-1"
	h.deal.Payload.Status = api.ContractStatus{State: api.Active, Terms: api.ContractTerms{Buyer: "rome", Seller: "milan", Offer: "web",
		Plan: "small", Units: 4, Price: &api.Price{Amount: "0.08", Currency: "EUR", Period: api.PeriodHour},
		Until: *h.web.Payload.Status.Until}}
	return h
}

func (h *home) has(k health.Kind, subject, remedy, detail string) {
	h.view.Problems = append(h.view.Problems, k.Of(subject, remedy, "%s", detail))
}

func conditions(kind string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message}}
}

// faults are ten, each with what must be the first thing on the page.
var faults = []struct {
	name, first string
	of          func(*home)
}{
	{"broker unreachable", "The broker does not answer", func(h *home) {
		why := "dial tcp 10.0.0.7:7443: connect: connection refused"
		h.has(health.BrokerUnreachable, "broker https://bourse.example:7443",
			"check that the broker runs at https://bourse.example:7443", why+"; last heard 4m ago")
	}},
	{"provider unreachable", "Request “web”: no new pod can run at milan", func(h *home) {
		why := "virtual node rome-milan is not Ready: the API server of milan does not answer since 6m"
		h.web.Payload.Status.Message = why
		h.web.Payload.Status.Conditions = conditions(api.ConditionReady, "False", "NodeNotReady", why)
		h.has(health.NodeNotReady, "reservation r-1", "see: kubectl describe node rome-milan", why)
	}},
	{"policy refused", "The SharingPolicy is not valid", func(h *home) {
		h.has(health.PolicyInvalid, "SharingPolicy default", "correct the field that the message names: kubectl edit sharingpolicy default",
			"pools[0].percentage: 150 is more than 100")
	}},
	{"nobody fits", "Request “web” waits for capacity", func(h *home) {
		h.web.Payload.Status = api.ResourceRequestStatus{State: api.Pending, Reservation: "r-1",
			Message: "no cluster can serve the request: 3 of 3 have too little CPU; milan comes closest, with 12 CPU too few; see: bourse why web"}
	}},
	{"approval waits", "oslo waits for your approval", func(h *home) {
		h.approvals = []api.Envelope[api.Approval]{{ID: "r-9", Payload: api.Approval{Consumer: "oslo", Pool: "general",
			Resources: amounts("cpu", "16", "memory", "64Gi"), By: metav1.Time{Time: h.view.Now.Add(40 * time.Minute)}}}}
	}},
	{"contract ends soon", "Request “web” ends soon", func(h *home) {
		h.web.Payload.Status.Until = &metav1.Time{Time: h.view.Now.Add(3 * time.Hour)}
	}},
	{"key changed", "A cluster shows a different key", func(h *home) {
		h.has(health.KeyChanged, "cluster milan", "ask its admin for the fingerprint (bourse status), then: bourse trust milan FINGERPRINT",
			"it shows SHA256:9fQk-x2Lm, and SHA256:JlF-JBgRBvh3 is pinned: it was reinstalled, or somebody impersonates it")
	}},
	{"Liqo missing", "The cluster has no Liqo", func(h *home) {
		h.has(health.LiqoMissing, "", "install Liqo v1.2.0: https://docs.liqo.io", "the API server has no Liqo CRDs")
	}},
	{"clock skew", "The clock of this machine differs", func(h *home) {
		h.has(health.ClockSkew, "broker https://bourse.example:7443", "synchronize both clocks with NTP",
			"its clock is 7m12s ahead of this one")
	}},
	{"VirtualNodePool stuck", "VirtualNodePool “burst” is too small for its pods", func(h *home) {
		why := "4 pods wait: no cluster can serve 8 CPU more"
		h.pool.Payload.Status.Conditions = conditions(api.ConditionLimited, "True", "NoCandidate", why)
		h.has(health.DemandLimited, "VirtualNodePool burst", "see: bourse vnp why burst", "NoCandidate: "+why)
	}},
}

func (h *home) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, is := strings.CutPrefix(r.URL.Path, "/s/0/static/"); is {
		static.Serve(w, r, name)
		return
	}
	b := pages.NewBorrowed(pages.Listed{Requests: slices.Values([]client.RequestStatus{h.web}),
		Pools: []api.Envelope[api.KnownVirtualNodePool]{h.pool}, Deals: []api.Envelope[api.Deal]{h.deal}})
	shared := map[string]api.Amounts{"general": {Shared: amounts("cpu", "64", "memory", "256Gi"),
		Reserved: amounts("cpu", "16"), Available: amounts("cpu", "48", "memory", "256Gi")}}
	page := pages.Home(h.view, pages.Overview{Borrowed: b, Approvals: h.approvals, Shared: shared})
	_ = pages.Layout(h.view, page).Render(r.Context(), w)
}

// An admin sees the one thing that is wrong first: it is the topmost of the page, in words. With FAULTS=FOLDER it writes
// a picture of each, under a number, and what they show.
func TestTheFaultIsTheFirstThing(t *testing.T) {
	b := newTab(t, 1280)
	must(t, b.Script(false)) // no server keeps these pages up to date
	folder := os.Getenv("FAULTS")
	answers := ""
	now := time.Now()
	for i, fault := range faults {
		h := wellHome(now)
		fault.of(h)
		s := httptest.NewServer(h)
		defer s.Close() // at the end: the browser asks for an icon later
		must(t, b.Open(s.URL+"/"))
		first, err := browser.Eval[string](b, `document.querySelector("#banners .banner, .needs li").innerText`)
		if err != nil || !strings.HasPrefix(strings.TrimSpace(first), fault.first) {
			t.Errorf("%s: the first thing is %q, want %q, %v", fault.name, first, fault.first, err)
		}
		below, err := browser.Eval[float64](b, `document.querySelector("#banners .banner, .needs li").getBoundingClientRect().top`)
		if err != nil || below > 300 {
			t.Errorf("%s is %v px below the top, %v", fault.name, below, err)
		}
		if folder != "" {
			number := fmt.Sprintf("%02d", (i*7+3)%len(faults)+1)
			must(t, b.Picture(filepath.Join(folder, number+".png")))
			answers += number + ": " + fault.name + "\n"
		}
	}
	h := wellHome(now)
	s := httptest.NewServer(h)
	defer s.Close()
	must(t, b.Open(s.URL+"/"))
	must(t, b.See("Nothing waits for you"))
	time.Sleep(300 * time.Millisecond)
	must(t, b.Open("about:blank"))
	if folder != "" {
		must(t, os.WriteFile(filepath.Join(folder, "answers.txt"), []byte(answers), 0o644))
	}
}
