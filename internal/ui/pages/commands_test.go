package pages_test

import (
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

var copied = regexp.MustCompile(`data-copy="([^"]*)"`)

// words splits a line as a shell does, as far as pages quote.
var word = regexp.MustCompile(`'[^']*'|[^ ']+`)

// The command line knows each command that these pages show, with its flags and the number of its arguments.
func TestPagesShowCommandsThatExist(t *testing.T) {
	rome := anyCluster("rome", "9")
	peer := anyPeer("rome", "SHA256:abcd", "FirstUse", api.PeerSpec{})
	other := pages.Other{Name: "rome", Cluster: &rome, Peer: &peer, Audit: &api.Audit{Digest: "d1",
		Reservations: map[string]api.Resources{"r-1": amounts("cpu", "4")}}}
	lends := pages.Lends{Approvals: []api.Envelope[api.Approval]{{ID: "r-9", Payload: api.Approval{Consumer: "oslo", Digest: "d9"}}}}
	spot := anyDeal("r-1", "rome", "milan", "1.50 EUR", api.Active)
	spot.Payload.Status.Digest = "d1"
	sales := pages.Sales{Offers: []api.Envelope[api.OwnOffer]{anyOffer("web", "OnSale", "True", false),
		anyOffer("next", "Draft", "False", true)},
		Proposals: []api.Envelope[api.KnownProposal]{anyProposal("p-1", "rome", "milan", "")}}
	market := pages.Market{Brokers: []api.Envelope[api.KnownBroker]{anyBroker("main", "Connected", "True", false)}}
	operated := pages.Federation{Members: []api.Envelope[api.Member]{anyMember("rome", nil)}}
	shown := ""
	for _, panel := range []string{"", "panel=trust", "panel=suspend", "panel=evict", "panel=refuse&id=r-9", "panel=policy",
		"panel=reclaim&id=r-1", "panel=new", "panel=edit&id=web", "panel=counter&id=p-1", "panel=decline&id=p-1", "panel=add",
		"panel=disable&id=main", "panel=cap&id=rome", "panel=suspend&id=rome", "panel=revoke&id=rome", "panel=remove&id=rome",
		"panel=token", "panel=delete-token&id=t-1"} {
		v := view("/", panel)
		shown += render(t, pages.Clusters(v, pages.Others{})) + render(t, pages.Cluster(v, other)) + render(t, pages.Lending(v, lends)) +
			render(t, pages.Contracts(v, pages.Deals{All: []api.Envelope[api.Deal]{spot}})) + render(t, pages.Offers(v, sales)) +
			render(t, pages.Offers(v, pages.Sales{})) + render(t, pages.Brokers(v, market)) + render(t, pages.Brokers(v, pages.Market{})) + render(t, pages.OperatorPage(v, operated))
	}
	if n := checkCommands(t, shown); n < 25 {
		t.Errorf("only %d commands are shown", n)
	}
}

// checkCommands checks that the command line knows each of its commands on pages, and returns how many there are.
func checkCommands(t *testing.T, shown string) int {
	t.Helper()
	checked := map[string]bool{}
	for _, found := range copied.FindAllStringSubmatch(shown, -1) {
		line := html.UnescapeString(found[1])
		args := word.FindAllString(line, -1)
		if args[0] != "bourse" || checked[line] {
			continue
		}
		checked[line] = true
		command, rest, err := cli.Root(io.Discard, io.Discard).Find(args[1:])
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err == nil {
			err = command.ValidateArgs(command.Flags().Args())
		}
		if err != nil || strings.HasSuffix(command.Use, "bourse") {
			t.Errorf("%s: %v", line, err)
		}
	}
	return len(checked)
}

// What one command of kubectl does, too, is shown with it.
func TestPagesShowKubectlBesideBourse(t *testing.T) {
	lends := pages.Lends{Approvals: []api.Envelope[api.Approval]{{ID: "r-9", Payload: api.Approval{Consumer: "oslo", Digest: "d9"}}}}
	spot := anyDeal("r-1", "rome", "milan", "1.50 EUR", api.Active)
	spot.Payload.Status.Digest = "d1"
	deals := pages.Deals{All: []api.Envelope[api.Deal]{spot}}
	sales := pages.Sales{Offers: []api.Envelope[api.OwnOffer]{anyOffer("web", "OnSale", "True", false)},
		Proposals: []api.Envelope[api.KnownProposal]{anyProposal("p-1", "rome", "milan", "")}}
	row := pages.NewBorrowed(pages.Listed{Requests: slices.Values([]client.RequestStatus{{ID: "team/web"}})})
	answer := func(reply string) string {
		return "kubectl -n bourse patch proposal p-1 --type merge -p '{\"spec\":{\"answer\":" + reply
	}
	for query, of := range map[string]struct {
		page func(pages.View) templ.Component
		want string
	}{
		"panel=approve&id=r-9": {func(v pages.View) templ.Component { return pages.Lending(v, lends) },
			"kubectl -n bourse annotate --overwrite providerinstruction r-9 bourse.dev/approve=d9"},
		"panel=refuse&id=r-9": {func(v pages.View) templ.Component { return pages.Lending(v, lends) },
			"kubectl -n bourse annotate --overwrite providerinstruction r-9 'bourse.dev/refuse=d9 the rack is full'"},
		"panel=reclaim&id=r-1": {func(v pages.View) templ.Component { return pages.Contracts(v, deals) },
			"kubectl -n bourse annotate --overwrite contract r-1 bourse.dev/reclaim=d1"},
		"panel=sale&id=web": {func(v pages.View) templ.Component { return pages.Offers(v, sales) },
			`kubectl -n bourse patch offer web --type merge -p '{"spec":{"draft":true}}'`},
		"panel=edit&id=web":   {func(v pages.View) templ.Component { return pages.Offers(v, sales) }, "kubectl -n bourse edit offer web"},
		"panel=accept&id=p-1": {func(v pages.View) templ.Component { return pages.Offers(v, sales) }, answer(`{"decision":"Accept"}}}'`)},
		"panel=decline&id=p-1": {func(v pages.View) templ.Component { return pages.Offers(v, sales) },
			answer(`{"decision":"Decline","message":"no GPU is free"}}}'`)},
		"panel=counter&id=p-1": {func(v pages.View) templ.Component { return pages.Offers(v, sales) }, answer(`{"decision":"Counter","price"`)},
		"panel=review&cpu=1": {func(v pages.View) templ.Component {
			return pages.Find(v, pages.Found{Wish: pages.ReadWish(v.Query, "team")})
		}, "kubectl create -f request.yaml"},
		"":          {func(v pages.View) templ.Component { return pages.Borrowing(v, row) }, "kubectl get resourcerequests -A"},
		"state=all": {func(v pages.View) templ.Component { return pages.Contracts(v, deals) }, "kubectl get contracts -A"},
	} {
		v := view("/", query)
		v.AgentNamespace = "bourse"
		has(t, render(t, of.page(v)), html.EscapeString(of.want))
	}
}
