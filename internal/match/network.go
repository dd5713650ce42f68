package match

import "github.com/bourse-dev/bourse/api"

// A network between two clusters has two gateways, of which one dials the other: so one of them must be reachable.

func noNetworkAsked(q *question) bool { return q.Request.Network != api.NetworkWireGuard }

// reachedDirectly passes who can be borrowed from without a network, where none is asked for: some API servers are reached
// through one only.
func reachedDirectly(q *question, c *candidate) reason {
	if !noNetworkAsked(q) {
		return passes
	}
	return directly(q, c)
}

func directly(_ *question, c *candidate) reason {
	if c.card != nil && c.card.Properties.APIServerAccess == api.APIServerNetwork {
		return noNetwork
	}
	return passes
}

func connects(q *question, c *candidate) reason {
	switch theirs := &c.card.Properties; {
	case theirs.Network != q.Request.Network:
		return noNetwork
	case !theirs.Gateway && !q.card.Properties.Gateway:
		return noGateway
	}
	return passes
}

func explainNetwork(q *question, _ *candidate, r reason) string {
	if r == noGateway {
		return "neither its network gateway nor the asker's can be reached by the other"
	}
	return "has no network " + string(q.Request.Network) + " with consumers"
}
