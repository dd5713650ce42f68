package pages_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

func anyDeal(id, buyer, seller, due string, state api.State) api.Envelope[api.Deal] {
	return api.Envelope[api.Deal]{ID: "bourse/" + id, Payload: api.Deal{Spec: api.ContractSpec{Reservation: id}, Due: due,
		Status: api.ContractStatus{State: state, Cost: due, Terms: api.ContractTerms{Buyer: buyer, Seller: seller, Offer: "web",
			Plan: "small", Units: 2, Resources: amounts("cpu", "4"), Price: &api.Price{Amount: "0.08", Currency: "EUR", Period: "hour"},
			Begins: metav1.NewTime(now.Add(-time.Hour)), Until: metav1.NewTime(now.Add(time.Hour))}}}}
}

func TestContractsAddNoCurrencies(t *testing.T) {
	spot := anyDeal("r-1", "rome", "milan", "1.50 EUR", api.Active)
	spot.Payload.Status.Digest = "d1"
	broken := anyDeal("r-5", "milan", "paris", "3.00 EUR", api.Released)
	broken.Payload.Status.Conditions = condition(api.ConditionBreached, "True", "Revoked", "")
	broken.Payload.Status.Reason = api.ReasonRevokedByProvider
	d := pages.Deals{All: []api.Envelope[api.Deal]{spot, anyDeal("r-2", "rome", "milan", "2.50 EUR", api.Active),
		anyDeal("r-3", "rome", "milan", "7.00 USD", api.Active), anyDeal("r-4", "milan", "paris", "", api.Active), broken}}
	html := render(t, pages.Contracts(view("/contracts", ""), d))
	has(t, html, "4.00 EUR", "7.00 USD", "3.00 EUR", "milan earns", "Of the contracts that still exist here, since 2026-05-04 11:00:00 UTC",
		"contract-r-1", "bourse contract verify r-1", "Take back", "0.08 EUR/hour")
	hasNot(t, html, "11.00", "contract-r-5")
	if n := strings.Count(html, "Take back"); n != 1 {
		t.Errorf("%d contracts can be taken back", n)
	}
	has(t, render(t, pages.Contracts(view("/contracts", "state=over"), d)), "contract-r-5", "a breach of the contract")
	html = render(t, pages.Contracts(view("/contracts", "side=bought"), d))
	hasNot(t, html, "contract-r-1")
	has(t, html, "contract-r-4")
	has(t, render(t, pages.Contracts(view("/contracts", "panel=reclaim&id=r-1"), d)), `name="digest" value="d1"`,
		"cannot be undone", "bourse reclaim r-1 --digest d1")
	has(t, render(t, pages.Contracts(view("/contracts", "panel=reclaim&id=r-2"), d)), "cannot be taken back")
	has(t, render(t, pages.Contracts(view("/contracts", ""), pages.Deals{})), "There is no contract yet")
	has(t, render(t, pages.Contracts(view("/contracts", ""), pages.Deals{Failed: forbidden})), "may not read Contracts here")
	foreign := anyDeal("r-6", "rome", "milan", "1.00 EUR", api.Active)
	foreign.Payload.Status.Terms.Plan = hostile
	checkHostile(t, render(t, pages.Contracts(view("/contracts", ""), pages.Deals{All: []api.Envelope[api.Deal]{foreign}})))
}

// Without the name of the cluster no page says what was bought or sold, adds it up, or offers an act on it.
func TestWithoutTheClusterNoDealHasASide(t *testing.T) {
	deal := anyDeal("r-1", "rome", "milan", "1.50 EUR", api.Active)
	deal.Payload.Status.Digest = "d1"
	deals := []api.Envelope[api.Deal]{deal}
	reclaimed := metav1.NewTime(now.Add(time.Hour))
	taken := anyDeal("r-2", "rome", "milan", "1.50 EUR", api.Active)
	taken.Payload.Status.Reclaimed = &reclaimed
	at := func(path, query string) pages.View {
		v := view(path, query)
		v.Cluster = ""
		return v
	}
	const notKnown = "What is bought and what is sold is not known"
	for _, query := range []string{"", "side=sold", "side=bought"} {
		html := render(t, pages.Contracts(at("/contracts", query), pages.Deals{All: deals}))
		has(t, html, notKnown, "What this cluster bought", "contract-r-1", "rome buys from milan", "1.50 EUR")
		hasNot(t, html, "<strong>Bought", "<strong>Sold", "Take back", " pays", " earns", "Download CSV", `name="side"`)
	}
	html := render(t, pages.Contracts(at("/contracts", "panel=reclaim&id=r-1"), pages.Deals{All: deals}))
	has(t, html, notKnown)
	hasNot(t, html, "Take it back")
	s := pages.Sales{Proposals: []api.Envelope[api.KnownProposal]{anyProposal("p-1", "rome", "milan", "")}}
	html = render(t, pages.Offers(at("/offers", ""), s))
	has(t, html, notKnown, "milan/web/small", "2 units, 0.06 EUR/hour each")
	hasNot(t, html, "Proposals of this cluster", "Proposals of buyers", "Accept")
	for _, panel := range []string{"accept", "counter", "decline"} {
		html = render(t, pages.Offers(at("/offers", "id=p-1&panel="+panel), s))
		has(t, html, notKnown)
		hasNot(t, html, "<button>", `name="digest"`)
	}
	o := pages.Overview{Borrowed: pages.NewBorrowed(pages.Listed{Deals: append(deals, taken)}), Proposals: s.Proposals}
	html = render(t, pages.Home(at("/", ""), o))
	has(t, html, notKnown, "Nothing waits for you")
	hasNot(t, html, "1.50", "takes web back")
	e := pages.Everything{Borrowed: o.Borrowed}
	has(t, render(t, pages.Search(at("/search", "q=r-1"), e)), "web/small, rome buys from milan, Active")
}

// Home tells the buyer that the seller takes a contract back or broke it, and not the seller who does.
func TestTheBuyerIsToldOfAReclaim(t *testing.T) {
	at := metav1.NewTime(now.Add(time.Hour))
	home := func(buyer, seller string) string {
		taken, broken := anyDeal("r-1", buyer, seller, "1.50 EUR", api.Active), anyDeal("r-2", buyer, seller, "", api.Released)
		taken.Payload.Status.Reclaimed, broken.Payload.Status.Reason = &at, api.ReasonRevokedByProvider
		b := pages.NewBorrowed(pages.Listed{Deals: []api.Envelope[api.Deal]{taken, broken}})
		return render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: b}))
	}
	has(t, home("milan", "paris"), "paris takes web back", "move its pods before then", "paris broke the contract of web")
	html := home("rome", "milan")
	has(t, html, "Nothing waits for you")
	hasNot(t, html, "takes web back", "move its pods", "broke the contract")
}

// Home shows what runs up in an hour beside what is due so far. No currencies are added, and what is over costs no more.
func TestHomeShowsWhatAnHourCosts(t *testing.T) {
	over, dollars := anyDeal("r-3", "milan", "paris", "5.00 EUR", api.Released), anyDeal("r-4", "milan", "oslo", "7.00 USD", api.Active)
	dollars.Payload.Status.Terms.Price = &api.Price{Amount: "24", Currency: "USD", Period: "day"}
	b := pages.NewBorrowed(pages.Listed{Deals: []api.Envelope[api.Deal]{anyDeal("r-1", "milan", "paris", "1.50 EUR", api.Active),
		anyDeal("r-2", "rome", "milan", "2.50 EUR", api.Active), over, dollars}})
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

func TestNoCellIsAFormula(t *testing.T) {
	var deals pages.Deals
	for _, name := range []string{`=HYPERLINK("http://x","y")`, "+1", "-1", "@SUM(A1)", `a "b", c`} {
		deals.All = append(deals.All, anyDeal("r-1", name, "milan", "1.00 EUR", api.Active))
	}
	var file strings.Builder
	if err := csv.NewWriter(&file).WriteAll(deals.CSV("milan")); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(file.String())).ReadAll()
	if err != nil || len(lines) != 6 {
		t.Fatal(len(lines), err)
	}
	for i, want := range []string{"other", `'=HYPERLINK("http://x","y")`, "'+1", "'-1", "'@SUM(A1)", `a "b", c`} {
		if lines[i][2] != want {
			t.Errorf("line %d has %s", i, lines[i][2])
		}
	}
}
