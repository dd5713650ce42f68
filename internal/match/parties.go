package match

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
	"github.com/bourse-dev/bourse/internal/market"
)

// These filters look at who a cluster is, and whether the two clusters can work together.

func notSelf(q *question, c *candidate) reason { return when(c.Slot == q.slot, isSelf) }

func active(_ *question, c *candidate) reason { return when(!c.Active(), notActive) }

func visible(q *question, c *candidate) reason {
	return when(c.Measured == nil || !Visible(c.Measured.Terms, q.card), notVisible)
}

func visibleToAll(c *candidate) bool {
	return c.Measured != nil && c.Measured.Terms != nil && everyone(&c.Measured.Terms.VisibleTo)
}

// Visible reports whether a cluster with these terms is shown to a member. Without terms it is not.
func Visible(terms *market.Terms, to *api.Card) bool {
	return terms != nil && Among(&terms.VisibleTo, to)
}

// Among reports whether a member is in an audience.
func Among(audience *api.Audience, to *api.Card) bool {
	if everyone(audience) {
		return true
	}
	if slices.Contains(audience.Clusters, to.Cluster) {
		return true
	}
	for name, value := range audience.Labels {
		if has, ok := to.Properties.Labels[name]; !ok || has != value {
			return false
		}
	}
	return len(audience.Labels) > 0
}

func everyone(a *api.Audience) bool { return len(a.Clusters) == 0 && len(a.Labels) == 0 }

func noTarget(q *question) bool { return q.Request.Target == "" }

func target(q *question, c *candidate) reason { return when(c.Cluster != q.Request.Target, notTarget) }

func noExclude(q *question) bool { return len(q.Request.Exclude) == 0 }

func notExcluded(q *question, c *candidate) reason {
	return when(slices.Contains(q.Request.Exclude, c.Cluster), isExcluded)
}

func fresh(q *question, c *candidate) reason {
	switch {
	case c.FreshUntil == 0:
		return notAdvertised
	case q.now >= c.FreshUntil:
		return notFresh
	}
	return passes
}

func explainFresh(q *question, c *candidate, r reason) string {
	if r == notAdvertised {
		return "has not advertised since the broker started"
	}
	silent := (market.Lease + q.now.Go().Sub(c.FreshUntil.Go())).Round(time.Second)
	return fmt.Sprintf("has been silent for %s", silent)
}

func trusted(_ *question, c *candidate) reason {
	return when(c.card == nil || c.Member.Key == "", noKey)
}

// allEnabled reports that the consumer has not chosen its providers ([market.Enable]).
func allEnabled(q *question) bool { return q.member == nil || q.member.Enabled == nil }

func enabled(q *question, c *candidate) reason { return when(!q.member.Enables(c.Cluster), notEnabled) }

func noRelendAsked(q *question) bool { return !q.Request.Relend }

func relends(_ *question, c *candidate) reason { return when(!c.Measured.Terms.Relend, noRelend) }

func noHub(c *candidate) bool { return c.card == nil || !c.card.Properties.Aggregator }

// notHub passes hubs that the consumer asks for. A hub passes no request of another hub.
func notHub(q *question, c *candidate) reason {
	switch r := &q.Request; {
	case noHub(c):
		return passes
	case r.Relend:
		return hubOfHub
	}
	return when(!q.Request.Aggregated && q.Request.Target != c.Cluster && q.Request.Purchase == nil, isHub)
}

func explainHub(_ *question, _ *candidate, why reason) string {
	if why == hubOfHub {
		return "is a hub, and what a hub lends is not lent on again"
	}
	return "is a hub, which the request does not ask for"
}

func noVolumes(q *question) bool { return len(q.Request.StickTo) == 0 }

// hasData passes the providers of the namespace's volumes: pods elsewhere would not find them.
func hasData(q *question, c *candidate) reason {
	return when(!slices.Contains(q.Request.StickTo, c.Cluster), noData)
}

// ownKey reports whether a cluster has a key of its own. For others a broker signs, which both
// parties must accept.
func ownKey(c *candidate) bool { return c.card != nil && !c.card.Legacy }

func accepted(q *question, c *candidate) reason {
	return when(c.card.Legacy && !q.terms.TrustsLegacy(q.card), otherTrust)
}

func ownsKey(q *question) bool { return !q.card.Legacy }

func accepts(_ *question, c *candidate) reason {
	return when(!c.Measured.Terms.TrustsLegacy(c.card), untrusting)
}

func noNetworkAsked(q *question) bool { return q.Request.Network != api.NetworkWireGuard }

// reachedDirectly passes API servers that need no network, if the request asks for none.
func reachedDirectly(q *question, c *candidate) reason {
	return when(noNetworkAsked(q) && !needsNoNetwork(c), noNetwork)
}

func needsNoNetwork(c *candidate) bool {
	return c.card == nil || c.card.Properties.APIServerAccess != api.APIServerNetwork
}

// connects passes pairs of clusters with one reachable gateway at least: the other one dials it.
func connects(q *question, c *candidate) reason {
	switch properties := &c.card.Properties; {
	case properties.Network != q.Request.Network:
		return noNetwork
	case !properties.Gateway && !q.card.Properties.Gateway:
		return noGateway
	}
	return passes
}

func explainNetwork(q *question, _ *candidate, r reason) string {
	if r == noGateway {
		return "neither its network gateway nor the consumer's can be reached by the other"
	}
	return "has no network " + string(q.Request.Network) + " with consumers"
}

// Agents peer two clusters whose Liqos exchange the same objects, whatever their versions. A consumer without Liqo can
// reserve anywhere, because nothing is peered for it. With a legacy provider, admins peer by hand.

// protocolOf returns the protocol of a cluster's Liqo, and the same as one text. Both are empty if it is not known.
func protocolOf(card *api.Card) (liqoprotocol.Protocol, string) {
	if card == nil {
		return nil, ""
	}
	p := liqoprotocol.Of(&card.Properties)
	return p, strings.Join(p, ",")
}

func noLiqo(q *question) bool { return len(q.liqo) == 0 }

func fitsLiqo(q *question, c *candidate) reason {
	if c.liqoText == q.liqoText || c.card.Legacy {
		return passes
	}
	return when(len(c.liqo) == 0 || liqoprotocol.Compare(q.liqo, c.liqo) != "", otherLiqo)
}

func explainLiqo(q *question, c *candidate, _ reason) string {
	if len(c.liqo) == 0 {
		return "has no known Liqo version"
	}
	return fmt.Sprintf("runs Liqo %.40q, the consumer %.40q: %s", c.card.Properties.Liqo, q.card.Properties.Liqo,
		liqoprotocol.Compare(q.liqo, c.liqo))
}
