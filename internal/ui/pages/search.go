package pages

import (
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
)

// Everything is what the search looks through.
type Everything struct {
	Borrowed Borrowed
	Others   Others
	Offers   []api.Envelope[api.OwnOffer]
	Listed   []api.Envelope[api.Listing] // the catalog
	Brokers  []api.Envelope[api.KnownBroker]
	// Failed says what could not be read: a kind of thing and why.
	Failed map[string]*api.Error
}

// mostHits is how many hits of a kind the search shows.
const mostHits = 10

// hits are the things of one kind that have the text in their name.
type hits struct {
	Kind string
	All  []hit
	N    int           // how many there are: All has mostHits at most
	More templ.SafeURL // the list that has them all
}

// hit is one thing that was found.
type hit struct {
	Name, About string
	To          templ.SafeURL
}

// find returns what has a text in its name, by kind. An empty text finds nothing.
func (e Everything) find(v View, text string) []hits {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return nil
	}
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	list := func(path string) templ.SafeURL {
		return v.To(path) + "?" + templ.SafeURL(url.Values{"q": {text}}.Encode())
	}
	menu := hits{Kind: "Pages"}
	for _, page := range v.navigation() {
		if has(page.Name) {
			menu.add(hit{page.Name, "", v.to(page.Path)})
		}
	}
	requests, pools := hits{Kind: "Requests", More: list("borrowing")}, hits{Kind: "VirtualNodePools", More: list("borrowing")}
	for _, r := range e.Borrowed.rows {
		switch {
		case !has(r.Namespace + "/" + r.Name):
		case r.Pool:
			pools.add(hit{r.Name, r.State, v.To("pools", r.Name)})
		default:
			requests.add(hit{r.Namespace + "/" + r.Name, r.State, v.To("requests", r.Namespace, r.Name)})
		}
	}
	clusters := hits{Kind: "Clusters", More: list("clusters")}
	for _, c := range e.Others.rows(v) {
		if c.has(text) {
			clusters.add(hit{c.Name, strings.Trim(c.State+", "+c.Region, ", "), v.To("clusters", c.Name)})
		}
	}
	contracts := hits{Kind: "Contracts", More: list("contracts") + "&state=all"}
	for _, d := range e.Borrowed.Deals {
		if row := dealRowOf(d, v.Cluster); row.has(text) {
			contracts.add(hit{row.ID, row.Plan + ", " + row.Parties + ", " + row.State,
				v.To("contracts") + "?" + templ.SafeURL(url.Values{"q": {row.ID}, "state": {"all"}}.Encode())})
		}
	}
	sold := hits{Kind: "Offers of this cluster", More: v.To("offers")}
	for _, o := range e.Offers {
		if has(o.ID) {
			sold.add(hit{o.ID, o.Payload.Spec.Description, v.To("offers")})
		}
	}
	onSale := hits{Kind: "Offers of other clusters", More: v.To("find")}
	for _, l := range e.Listed {
		if name := l.Payload.Seller + "/" + l.Payload.Name; l.Payload.Seller != v.Cluster && has(name) {
			onSale.add(hit{name, l.Payload.Offer.Description, v.To("clusters", l.Payload.Seller)})
		}
	}
	brokers := hits{Kind: "Brokers", More: v.To("brokers")}
	for _, b := range e.Brokers {
		if has(b.ID) {
			word, _, _, _ := brokerState(b.Payload)
			brokers.add(hit{b.ID, word, v.To("brokers")})
		}
	}
	all := []hits{menu, requests, pools, clusters, contracts, sold, onSale, brokers}
	return slices.DeleteFunc(all, func(h hits) bool { return h.N == 0 })
}

// add adds a hit. Those beyond mostHits are counted.
func (h *hits) add(found hit) {
	if h.N++; len(h.All) < mostHits {
		h.All = append(h.All, found)
	}
}
