package match

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// reason is why a filter eliminated a cluster. The list is closed. Decisions count by filter and, within a
// filter, in this order.
type reason uint8

const (
	passes reason = iota
	isSelf
	notActive
	notVisible
	notTarget
	isExcluded
	notEnabled
	noRelend
	isHub
	hubOfHub
	noData
	notAdvertised
	notFresh
	noKey
	otherTrust
	untrusting
	otherLiqo
	noNetwork
	noGateway
	noPool
	otherProperty
	whereFalse
	whereUnknown
	whereTooCostly
	tooLong
	tooMuch
	notAllowed
	onlyOffers
	othersAlone
	notAlone
	overcommitted
	tooLittle
	noShapes
	noNode
	refused
	kept
	noPlan
	otherCurrency
	tooDear
	reasons // how many there are
)

var reasonNames = [reasons]string{
	isSelf:         "Self",           // it is the consumer itself
	notActive:      "NotActive",      // it is not an admitted member (hidden)
	notVisible:     "NotVisible",     // its terms do not show it to the consumer (hidden)
	notTarget:      "NotTarget",      // another one was named as the target
	isExcluded:     "Excluded",       // the request excludes it
	notEnabled:     "NotEnabled",     // the consumer chose among the providers, and not this one
	noRelend:       "NoRelend",       // its terms do not let consumers lend on
	isHub:          "Aggregator",     // it is a hub, and the request does not ask for one
	hubOfHub:       "HubOfHub",       // it is a hub, and what it lends is not lent on
	noData:         "DataElsewhere",  // another provider has the volumes of the offloaded namespaces
	notAdvertised:  "NotAdvertised",  // no advertisement came since the broker started
	notFresh:       "NotFresh",       // its lease ended
	noKey:          "NoKey",          // it has no card or no cluster key
	otherTrust:     "Legacy",         // the broker signs in its name, which the consumer's policy does not accept
	untrusting:     "NotLegacy",      // the broker signs in the consumer's name, which its terms do not accept
	otherLiqo:      "OtherLiqo",      // its Liqo and the consumer's do not peer
	noNetwork:      "NoNetwork",      // it has no network of the requested kind, or needs one
	noGateway:      "NoGateway",      // neither its gateway nor the consumer's can be reached
	noPool:         "NoPool",         // it shares no pool of that name
	otherProperty:  "OtherProperty",  // a property differs from the request, or is missing
	whereFalse:     "WhereFalse",     // `where` is false
	whereUnknown:   "WhereUnknown",   // `where` needs a fact that the cluster does not advertise
	whereTooCostly: "WhereTooCostly", // `where` takes too long
	tooLong:        "TooLong",        // longer than its terms allow
	tooMuch:        "TooMuch",        // more than its terms allow
	notAllowed:     "NotAllowed",     // the CEL of its terms does not allow it
	onlyOffers:     "OnlyOffers",     // its terms lend by offers only, and the request is no purchase
	othersAlone:    "Dedicated",      // the pool is dedicated to another consumer
	notAlone:       "NotAlone",       // the pool has other consumers, and the plan needs the whole pool
	overcommitted:  "Overcommitted",  // its reservations exceed what it has: nothing new is placed there
	tooLittle:      "TooLittle",      // it does not fit
	noShapes:       "NoShapes",       // it does not advertise the free amounts of its nodes
	noNode:         "NoNode",         // no node can run a pod of the requested shape
	refused:        "Refused",        // it refused this request before
	kept:           "Kept",           // its capacity is kept for another request, which waits
	noPlan:         "NoPlan",         // it lends by offers only, and no plan serves the request
	otherCurrency:  "OtherCurrency",  // it sells in other currencies than that of the highest price
	tooDear:        "TooDear",        // its cheapest plan for the request costs more than the highest price
}

// filter is one step that a cluster must pass.
type filter struct {
	name string
	// check runs for every cluster of every decision, so it formats nothing.
	check func(q *question, c *candidate) reason
	// explain returns the reason in words. It runs for few clusters.
	explain func(q *question, c *candidate, r reason) string

	// moot reports that the filter has nothing to check for this request. Nil: it always has.
	moot func(*question) bool
	// temporary: a cluster may pass later, when other consumers have less of it.
	temporary bool
	// alwaysPasses reports whether a cluster passes for every request. The candidate keeps the result.
	alwaysPasses func(*candidate) bool
	// short returns how much was missing, in parts per million of the request. Nil: unknown.
	short func(q *question, c *candidate) int64

	// hides: the clusters that it eliminates count as hidden and are never named.
	hides bool
	// chosen: the consumer itself ruled the cluster out, so it is no near miss.
	chosen bool
}

// filters are all filters in their order: visibility first, then the consumer's own choices, then
// cheap checks. Capacity comes last, because a cluster that lacks nothing else is the most useful
// near miss. After `visible`, a cluster has advertised and has terms.
var filters = []filter{
	{name: "self", check: notSelf, explain: say("is the consumer itself"), chosen: true},
	{name: "active", check: active, alwaysPasses: clusterOnly(active), hides: true},
	{name: "visible", check: visible, alwaysPasses: visibleToAll, hides: true},
	{name: "target", check: target, moot: noTarget, explain: say("is not the target"), chosen: true},
	{name: "exclude", check: notExcluded, moot: noExclude, explain: say("is excluded by the request"), chosen: true},
	{name: "enabled", check: enabled, moot: allEnabled,
		explain: say("is not among the providers that the consumer enabled"), chosen: true},
	{name: "relend", check: relends, moot: noRelendAsked,
		explain: say("does not let consumers lend on: its SharingPolicy has no relend: true")},
	{name: "aggregator", check: notHub, alwaysPasses: noHub, explain: explainHub, chosen: true},
	{name: "data", check: hasData, moot: noVolumes,
		explain: say("has none of the volumes of the offloaded namespaces: " +
			"to leave them behind, offload with data: Move (--data Move)")},
	{name: "fresh", check: fresh, explain: explainFresh},
	{name: "trusted", check: trusted, alwaysPasses: clusterOnly(trusted),
		explain: say("has no cluster key that can be trusted")},
	{name: "legacy", check: accepted, alwaysPasses: ownKey,
		explain: say("has no key, the broker signs in its name: to accept that, set trust: legacy in the SharingPolicy")},
	{name: "legacy", check: accepts, moot: ownsKey,
		explain: say("does not accept what the broker signs in the name of a cluster without a key (trust: legacy)")},
	{name: "liqo", check: fitsLiqo, moot: noLiqo, explain: explainLiqo},
	{name: "network", check: reachedDirectly, alwaysPasses: needsNoNetwork,
		explain: say("its API server is reached through a network only, which the request does not ask for")},
	{name: "network", check: connects, moot: noNetworkAsked, explain: explainNetwork},
	{name: "pool", check: hasPool, alwaysPasses: clusterOnly(hasPool), explain: explainPool},
	{name: "properties", check: properties, moot: noProperties, explain: explainProperties},
	{name: "where", check: where, moot: noWhere, explain: explainWhere},
	{name: "policy", check: policy, alwaysPasses: noPolicy, explain: explainPolicy},
	{name: "dedicated", check: notOwnedByOther, alwaysPasses: unowned, explain: explainOwned, temporary: true},
	{name: "dedicated", check: notUsedByOther, moot: notDedicated, explain: explainShared, temporary: true},
	{name: "overcommitted", check: notOvercommitted, alwaysPasses: clusterOnly(notOvercommitted),
		explain: explainOvercommitted, temporary: true},
	{name: "fits", check: fits, explain: explainFits, short: shortfall, temporary: true},
	{name: "shape", check: hosts, moot: noShapeAsked, explain: explainShape, short: shapeShortfall, temporary: true},
	{name: "price", check: affordable, moot: noLimit, alwaysPasses: lends, explain: explainPrice, short: excess},
	{name: "refused", check: notRefused, moot: noneRefused, explain: say("refused this request before")},
	{name: "kept", check: notKept, moot: nothingKept,
		explain: say("keeps its capacity for a request that waits for longer, or has a higher priority")},
}

// clusterOnly returns an alwaysPasses from a check that looks only at the cluster.
func clusterOnly(check func(*question, *candidate) reason) func(*candidate) bool {
	return func(c *candidate) bool { return check(nil, c) == passes }
}

func say(text string) func(*question, *candidate, reason) string {
	return func(*question, *candidate, reason) string { return text }
}

// when returns the reason if the cluster is ruled out.
func when(ruledOut bool, why reason) reason {
	if ruledOut {
		return why
	}
	return passes
}

func hasPool(_ *question, c *candidate) reason { return when(c.pool == nil, noPool) }

func explainPool(q *question, _ *candidate, _ reason) string {
	return fmt.Sprintf("has no pool %q", q.Request.Pool)
}

func noProperties(q *question) bool { return len(q.Request.Properties) == 0 }

func properties(q *question, c *candidate) reason {
	for name, value := range q.Request.Properties {
		if has, ok := c.card.Properties.Labels[name]; !ok || has != value {
			return otherProperty
		}
	}
	return passes
}

func explainProperties(q *question, c *candidate, _ reason) string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(q.Request.Properties)) {
		switch has, ok := c.card.Properties.Labels[name]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("has no property %q", name))
		case has != q.Request.Properties[name]:
			wrong = append(wrong, fmt.Sprintf("%q is %.80q", name, has))
		}
	}
	return strings.Join(wrong, ", ")
}

// propertiesIn lists the properties that an expression names, with the values of a provider.
func propertiesIn(where string, p api.Properties) (text string) {
	for _, property := range []struct {
		name  string
		value any
	}{{"architectures", p.Architectures}, {"gpus", p.GPUs}, {"region", p.Region}, {"zones", p.Zones}} {
		if value, err := json.Marshal(property.value); err == nil && strings.Contains(where, property.name) &&
			len(value) < 200 && string(value) != "null" {
			text += ", " + property.name + " is " + string(value)
		}
	}
	return text
}

func noWhere(q *question) bool { return q.Request.Where == "" }

func where(q *question, c *candidate) reason { return q.where.lookUp(c) }

func explainWhere(q *question, c *candidate, r reason) string {
	switch r {
	case whereFalse:
		return "`where` is false" + propertiesIn(q.Request.Where, c.Card().Properties)
	case whereTooCostly:
		return "`where` takes too long here"
	default:
		return "`where` is unknown: " + q.where.explainFailure(c)
	}
}

func noPolicy(c *candidate) bool {
	if c.Measured == nil || c.Measured.Terms == nil {
		return false
	}
	t := c.Measured.Terms
	return !t.OnlyOffers && t.MaxDuration == nil && len(t.MaxPerReservation) == 0 && len(t.MaxPerConsumer) == 0 &&
		t.Allow == ""
}

func policy(q *question, c *candidate) reason {
	terms := c.Measured.Terms
	switch {
	case terms.OnlyOffers && q.Request.Purchase == nil && q.limit == nil:
		return onlyOffers
	case terms.MaxDuration != nil && q.Duration > terms.MaxDuration.Duration:
		return tooLong
	case terms.Refuses(q.Size, c.pool.Accounts[q.Consumer]) != "":
		return tooMuch
	case !q.permits(terms.Allow):
		return notAllowed
	}
	return passes
}

func explainPolicy(q *question, c *candidate, r reason) string {
	terms := c.Measured.Terms
	switch r {
	case tooLong:
		return fmt.Sprintf("lends for at most %s", terms.MaxDuration.Duration)
	case tooMuch:
		return terms.Refuses(q.Size, c.pool.Accounts[q.Consumer])
	case onlyOffers:
		return "lends by its offers only: see bourse catalog --seller " + c.Cluster
	default:
		return "its policy does not allow this request"
	}
}
