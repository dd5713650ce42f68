package match

import "github.com/bourse-dev/bourse/api"

// A network between two clusters has two gateways, of which one dials the other: so one of them must be reachable.

// Some providers' API servers are reached through it only.

func connects(q *question, c *candidate) reason {
	switch theirs := &c.card.Properties; {
	case q.Request.Network != api.NetworkWireGuard && theirs.APIServerAccess == api.APIServerNetwork:
		return noNetwork
	case q.Request.Network != api.NetworkWireGuard:
		return passes
	case theirs.Network != q.Request.Network:
		return noNetwork
	case !theirs.Gateway && !q.card.Properties.Gateway:
		return noGateway
	}
	return passes
}

func explainNetwork(q *question, _ *candidate, r reason) string {
	switch {
	case r == noGateway:
		return "neither its network gateway nor the asker's can be reached by the other"
	case q.Request.Network != api.NetworkWireGuard:
		return "its API server is reached through a network only, which the request does not ask for"
	}
	return "has no network " + string(q.Request.Network) + " with consumers"
}
