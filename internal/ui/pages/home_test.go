package pages_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// ofDeals is a cluster that has contracts, and no requests.
func ofDeals(deals ...api.Envelope[api.Deal]) pages.Borrowed {
	return pages.NewBorrowed(pages.Listed{Now: now, Deals: deals, Requests: slices.Values([]client.RequestStatus(nil))})
}

// Home tells the buyer that the seller takes a contract back or broke it, and not the seller who does.
func TestTheBuyerIsToldOfAReclaim(t *testing.T) {
	at := metav1.NewTime(now.Add(time.Hour))
	home := func(buyer, seller string) string {
		taken, broken := anyDeal("r-1", buyer, seller, "1.50 EUR", api.Active), anyDeal("r-2", buyer, seller, "", api.Released)
		taken.Payload.Status.Reclaimed, broken.Payload.Status.Reason = &at, api.ReasonRevokedByProvider
		b := ofDeals(taken, broken)
		return render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: b}))
	}
	has(t, home("milan", "paris"), "paris takes web back", "move its pods before then", "paris broke the contract of web")
	html := home("rome", "milan")
	has(t, html, "Nothing waits for you")
	hasNot(t, html, "takes web back", "move its pods", "broke the contract")
}

// What an admin must decide today is before a warning without a deadline, and after what does not work.
func TestHomeBeginsWithWhatIsUrgent(t *testing.T) {
	v := view("/", "")
	v.Problems = []api.Problem{{Code: "Warns", Severity: api.SeverityWarning, Detail: "it warns"},
		{Code: "Fails", Severity: api.SeverityError, Detail: "it fails"}}
	approval := api.Envelope[api.Approval]{ID: "r-9", Payload: api.Approval{Consumer: "oslo", By: metav1.NewTime(now.Add(time.Hour))}}
	html := render(t, pages.Home(v, pages.Overview{Borrowed: ofDeals(), Approvals: []api.Envelope[api.Approval]{approval}}))
	fails, decide, warns := strings.Index(html, "it fails"), strings.Index(html, "waits for your approval"), strings.Index(html, "it warns")
	if fails < 0 || decide < fails || warns < decide {
		t.Errorf("what fails is at %d, what to decide at %d, what warns at %d", fails, decide, warns)
	}
}

// Home shows what runs up in an hour beside what is due so far. No currencies are added, and what is over costs no more.
func TestHomeShowsWhatAnHourCosts(t *testing.T) {
	over, dollars := anyDeal("r-3", "milan", "paris", "5.00 EUR", api.Released), anyDeal("r-4", "milan", "oslo", "7.00 USD", api.Active)
	dollars.Payload.Status.Terms.Price = &api.Price{Amount: "24", Currency: "USD", Period: "day"}
	b := ofDeals(anyDeal("r-1", "milan", "paris", "1.50 EUR", api.Active),
		anyDeal("r-2", "rome", "milan", "2.50 EUR", api.Active), over, dollars)
	html := render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: b}))
	has(t, html, `<td>Pays</td><td class="number">0.16 EUR</td><td class="number">6.50 EUR</td>`,
		`<td>Earns</td><td class="number">0.16 EUR</td><td class="number">2.50 EUR</td>`,
		`<td>Pays</td><td class="number">2.00 USD</td><td class="number">7.00 USD</td>`)
}

// The cost of a request is that of all its units in an hour, as the cost of a pool is. What its pods use is that of its
// instructions.
func TestBorrowingCostsAnHour(t *testing.T) {
	request := func(name, reservation string, parts ...api.RequestPart) client.RequestStatus {
		r := client.RequestStatus{ID: "team/" + name}
		r.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: reservation, Parts: parts,
			Resources: amounts("cpu", "4"), Until: &metav1.Time{Time: now.Add(100 * time.Hour)}}
		return r
	}
	pool := api.Envelope[api.KnownVirtualNodePool]{ID: "burst"}
	pool.Payload.Status.Cost = "1.20 EUR/h"
	dollars, free := anyDeal("r-3", "milan", "oslo", "", api.Active), anyDeal("r-5", "milan", "oslo", "", api.Active)
	dollars.Payload.Status.Terms.Price, free.Payload.Status.Terms.Price = &api.Price{Amount: "1", Currency: "USD", Period: "hour"}, nil
	b := pages.NewBorrowed(pages.Listed{Now: now, Pools: []api.Envelope[api.KnownVirtualNodePool]{pool},
		Requests: slices.Values([]client.RequestStatus{request("bought", "r-1"), request("over", "r-4"), request("free", "r-5"),
			request("split", "r-2", api.RequestPart{Reservation: "r-2"}, api.RequestPart{Reservation: "r-3"})}),
		Deals: []api.Envelope[api.Deal]{anyDeal("r-1", "milan", "paris", "", api.Active), anyDeal("r-2", "milan", "paris", "", api.Active),
			dollars, anyDeal("r-4", "milan", "paris", "", api.Released), free},
		Uses: map[string]pages.Use{"team/r-1": {Granted: amounts("cpu", "4"), Used: amounts("cpu", "3")},
			"team/r-2": {Used: amounts("cpu", "1", "memory", "1Gi")}, "team/r-3": {Used: amounts("cpu", "1")}}})
	html := render(t, pages.Borrowing(view("/borrowing", ""), b))
	for name, want := range map[string][]string{"team/bought": {"0.16 EUR/h", "3 CPU", "CPU in use"},
		"team/split": {"0.16 EUR/h, 2.00 USD/h", "2 CPU, 1 GiB"}, "/burst": {"1.20 EUR/h"}, "team/free": {"free"}} {
		_, row, _ := strings.Cut(html, `id="row-`+name)
		row, _, _ = strings.Cut(row, "</tr>")
		has(t, row, want...)
	}
	_, row, _ := strings.Cut(html, `id="row-team/over`)
	row, _, _ = strings.Cut(row, "</tr>")
	hasNot(t, row, "EUR", "in use")
}

// Each act of Home leads to its form: with 60 approvals the one would have to be found again.
func TestHomeLeadsToTheForm(t *testing.T) {
	held, ends := client.RequestStatus{ID: "team/held"}, client.RequestStatus{ID: "team/ends"}
	held.Payload.Status.State, held.Payload.Request.Confirm = api.Held, true
	ends.Payload.Status = api.ResourceRequestStatus{State: api.Active, Until: &metav1.Time{Time: now.Add(time.Hour)}}
	o := pages.Overview{Borrowed: pages.NewBorrowed(pages.Listed{Requests: slices.Values([]client.RequestStatus{held, ends})}),
		Approvals: []api.Envelope[api.Approval]{{ID: "r-9", Payload: api.Approval{Consumer: "oslo"}}},
		Proposals: []api.Envelope[api.KnownProposal]{anyProposal("p-1", "rome", "milan", "")}}
	has(t, render(t, pages.Home(view("/", ""), o)), `/s/0/lending?id=r-9&amp;panel=approve"`, `/s/0/offers?id=p-1&amp;panel=accept"`,
		`/s/0/requests/team/held?panel=confirm"`, `/s/0/requests/team/ends?panel=extend"`)
	has(t, render(t, pages.Lending(view("/lending", "id=r-9&panel=approve"), pages.Lends{Approvals: o.Approvals})), "id=r-9&amp;panel=refuse")
	has(t, render(t, pages.Offers(view("/offers", "id=p-1&panel=accept"), pages.Sales{Proposals: o.Proposals})),
		"id=p-1&amp;panel=counter", "id=p-1&amp;panel=decline")
}

// Keys that were pinned at the first contact are listed last, in one line.
func TestHomeListsKeysThatNobodyConfirmed(t *testing.T) {
	peer := func(name, reason string) api.Envelope[api.KnownPeer] {
		return anyPeer(name, "SHA256:abcd", reason, api.PeerSpec{})
	}
	home := func(all ...api.Envelope[api.KnownPeer]) string {
		return render(t, pages.Home(view("/", ""), pages.Overview{Peers: all,
			Approvals: []api.Envelope[api.Approval]{{ID: "r-9", Payload: api.Approval{Consumer: "oslo", By: metav1.NewTime(now.Add(time.Hour))}}}}))
	}
	hasNot(t, home(peer("rome", "Confirmed"), peer("oslo", "Legacy")), "Nobody confirmed")
	html := home(peer("rome", "FirstUse"), peer("oslo", "Confirmed"))
	has(t, html, "Nobody confirmed the key of rome", `/s/0/clusters/rome?panel=trust"`, "<b>Next:</b> ")
	if strings.Index(html, "Nobody confirmed") < strings.Index(html, "waits for your approval") {
		t.Error("a key is before what has a deadline")
	}
	var many []api.Envelope[api.KnownPeer]
	for i := range 8 {
		many = append(many, peer(fmt.Sprintf("c%d", i), "FirstUse"))
	}
	html = home(many...)
	has(t, html, "Nobody confirmed the keys of 8 clusters", "c0, c1, c2, c3, c4 and 3 more")
	if n := strings.Count(html, "Nobody confirmed"); n != 1 {
		t.Errorf("%d lines name keys", n)
	}
}

// Who may not read what is lent is not told that nothing is.
func TestHomeKnowsWhatItMayNotRead(t *testing.T) {
	home := func(o pages.Overview) string { return render(t, pages.Home(view("/", ""), o)) }
	has(t, home(pages.Overview{}), "Nothing is borrowed, and nothing is lent.")
	html := home(pages.Overview{NotShared: forbidden})
	has(t, html, "Nothing is borrowed.", "may not read Advertisements here")
	hasNot(t, html, "nothing is lent")
	unknown := ofDeals()
	unknown.Failed["ResourceRequests"] = forbidden
	html = home(pages.Overview{Borrowed: unknown})
	has(t, html, "Nothing is lent.")
	hasNot(t, html, "othing is borrowed")
}

// Forms take durations as the command line does.
func TestFormsTakeDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"2d": 48 * time.Hour, " 1d12h ": 36 * time.Hour, "90m": 90 * time.Minute} {
		w := pages.ReadWish(url.Values{"cpu": {"1"}, "for": {text}}, "team")
		if w.Wrong != nil || w.Create.Request.Duration.Duration != want {
			t.Errorf("%q is %v, %v", text, w.Create.Request.Duration, w.Wrong)
		}
	}
	if w := pages.ReadWish(url.Values{"cpu": {"1"}, "for": {"-2d"}}, "team"); w.Wrong == nil || w.Wrong.Field != "for" {
		t.Errorf("-2d is answered %v", w.Wrong)
	}
}
