package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// ClusterState says in one word whether a cluster can serve new requests of this one, and what prevents it.
func ClusterState(c api.Cluster) string {
	switch {
	case !c.Fresh:
		return "Silent"
	case c.PassedOver != "":
		reason, _, _ := strings.Cut(c.PassedOver, ":")
		return reason
	case c.Overcommitted:
		return "Overcommitted"
	case len(c.Pools) == 0:
		return "SharesNothing"
	default:
		return "Fresh"
	}
}

// LastHeard says how long ago the broker heard from a cluster's agent, empty if it did not.
func LastHeard(c api.Cluster) string {
	if c.HeardAgo == nil {
		return ""
	}
	return Duration(c.HeardAgo.Duration) + " ago"
}

// PassedOver returns sentences that name the clusters that this one passes over for each new request, by the reason. It
// says if the agent could not find them.
func PassedOver(items []api.Envelope[api.Cluster]) (lines []string) {
	by, unread := map[string][]string{}, ""
	for _, item := range items {
		unread = cmp.Or(unread, item.Payload.PassedOverError)
		if why := item.Payload.PassedOver; why != "" {
			by[why] = append(by[why], item.ID)
		}
	}
	if unread != "" {
		lines = append(lines, "the clusters that this one passes over could not be read: "+unread)
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		lines = append(lines, fmt.Sprintf("new requests of this cluster pass over %s: %s", some(by[why]), why))
	}
	return lines
}

// SharingPreview returns sentences that say what a SharingPolicy would change.
func SharingPreview(p api.SharingPreview) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		now, then := p.Pools[name].Now, p.Pools[name].Then
		switch {
		case then == nil:
			lines = append(lines, fmt.Sprintf("pool %s: you would show nothing more, now %s", name, sizesOr(now.Shared)))
		case now == nil:
			lines = append(lines, fmt.Sprintf("pool %s: you would show %s, now nothing", name, sizesOr(then.Shared)))
		default:
			lines = append(lines, fmt.Sprintf("pool %s: you would show %s, now %s", name, sizesOr(then.Shared),
				sizesOr(now.Shared)))
		}
		shown := cmp.Or(then, now)
		if len(shown.Reserved) > 0 {
			lines = append(lines, fmt.Sprintf("pool %s: %s reserved stay, to their end", name, Sizes(shown.Reserved)))
		}
		if then == nil {
			continue
		}
		over := api.Resources{}
		for of, left := range then.Available {
			if left.Sign() < 0 {
				left.Neg()
				over[of] = left
			}
		}
		if len(over) > 0 {
			lines = append(lines, fmt.Sprintf("pool %s: %s more is reserved than you would show: it is Overcommitted until "+
				"reservations end", name, Sizes(over)))
		}
	}
	if p.Unread != "" {
		return append(lines, "who would see you is not known: "+p.Unread)
	}
	for _, change := range []struct {
		what  string
		names []string
	}{{"would no longer see you", p.LoseSight}, {"would see you", p.GainSight}} {
		if len(change.names) > 0 {
			of := Count(len(change.names), "cluster")
			lines = append(lines, fmt.Sprintf("%s %s: %s", of, change.what, some(change.names)))
		}
	}
	if len(p.Holders) > 0 {
		lines = append(lines, "of these, what is reserved stays: "+some(p.Holders))
	}
	return lines
}

// sizesOr returns amounts, "nothing" for none.
func sizesOr(r api.Resources) string { return cmp.Or(Sizes(r), "nothing") }

// some names the first of clusters.
func some(names []string) string {
	const few = 8
	if more := len(names) - few; more > 0 {
		names = append(names[:few:few], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Quiet returns a sentence for each cluster from which the broker has not heard for longer than agents are silent, and
// which still counts as Fresh.
func Quiet(items []api.Envelope[api.Cluster]) (lines []string) {
	for _, item := range items {
		if age := item.Payload.HeardAgo; item.Payload.Fresh && age != nil && age.Duration > market.Lease/2 {
			lines = append(lines, fmt.Sprintf("the broker last heard from %s %s: it may be away, and counts as Silent after %s",
				item.ID, LastHeard(item.Payload), Duration(market.Lease)))
		}
	}
	return lines
}
