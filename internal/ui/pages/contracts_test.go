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
	o := pages.Overview{Borrowed: ofDeals(append(deals, taken)...), Proposals: s.Proposals}
	html = render(t, pages.Home(at("/", ""), o))
	has(t, html, notKnown, "Nothing waits for you")
	hasNot(t, html, "1.50", "takes web back")
	e := pages.Everything{Borrowed: o.Borrowed}
	has(t, render(t, pages.Search(at("/search", "q=r-1"), e)), "web/small, rome buys from milan, Active")
}

// What was bought leads to the request that bought it, and to its release. A pool decides about its own.
func TestAContractLeadsToItsRequest(t *testing.T) {
	request := func(id, reservation string) client.RequestStatus {
		r := client.RequestStatus{ID: id}
		r.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: reservation}
		return r
	}
	pool := api.Envelope[api.KnownVirtualNodePool]{ID: "burst"}
	pool.Payload.Status.Providers = []api.PoolProvider{{Name: "paris", Request: "burst-1"}}
	d := pages.Deals{All: []api.Envelope[api.Deal]{anyDeal("r-1", "milan", "paris", "", api.Active),
		anyDeal("r-2", "milan", "paris", "", api.Active), anyDeal("r-3", "rome", "milan", "", api.Active),
		anyDeal("r-4", "milan", "paris", "", api.Released)}}
	d.Borrowed = pages.NewBorrowed(pages.Listed{Deals: d.All, AgentNamespace: "bourse", Pools: []api.Envelope[api.KnownVirtualNodePool]{pool},
		Requests: slices.Values([]client.RequestStatus{request("team/web", "r-1"), request("bourse/burst-1", "r-2"),
			request("team/old", "r-4")})})
	html := render(t, pages.Contracts(view("/contracts", "state=all"), d))
	for id, want := range map[string][2]string{"r-1": {`href="/s/0/requests/team/web"`, `href="/s/0/requests/team/web?panel=release"`},
		"r-2": {`href="/s/0/pools/burst"`, ""}, "r-3": {"Sold", ""}, "r-4": {`href="/s/0/requests/team/old"`, ""}} {
		_, row, _ := strings.Cut(html, `id="contract-`+id)
		row, _, _ = strings.Cut(row, "</tr>")
		has(t, row, want[0], want[1], "60m ago", "in 60m")
		if want[1] == "" {
			hasNot(t, row, "panel=release")
		}
	}
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
