// Package api defines every public shape of Bourse, once: objects, REST payloads,
// signed documents and errors.
//
// Each concept has one payload type. REST wraps it in an [Envelope] of id,
// revision and payload; a custom resource embeds it as its spec or status. So
// what `kubectl get` shows, what `curl` reads and what the Go client returns
// have the same fields with the same meaning.
//
// Start with request.go (what a consumer asks), decision.go (why it got what it
// got), reservation.go (the life of what it got) and documents.go (what is
// signed). cluster.go says what a provider shows, sharing.go and
// pool_policy.go what its admin allows. errors.go is the closed list of what can go wrong.
//
// Quantities are Kubernetes quantities ("500m", "8Gi"), durations are Go
// durations ("1h30m"), times are RFC 3339 in UTC.
//
// +kubebuilder:object:generate=true
// +groupName=bourse.dev
// +versionName=v1alpha1
package api

// Protocol is the version of what agents and brokers say to each other. It is in each signed
// document. What an older program signed is read where it still means the same; what a newer one
// signed is refused, and so is an agent of another version that joins ([OtherProtocol]).
//
//	1  2026-11-20  clusters, advertisements, evaluations, reservations, watch
//	1  2026-11-21  handshakes, networks in them; the standing of others in a watch
//	1  2026-11-21  rotations on cards: a program without them refuses the card of a cluster whose key was rotated
//	1  2026-11-21  offers, and sales in assignments: a program without them refuses an assignment from a plan
//	1  2026-11-21  API servers that are reached through a network: a program without them cannot borrow there
//	1  2026-11-21  clusters without a key, and terms that accept them: a program without them takes the
//	               broker's key on such a card for theirs
//	2  2026-11-23  renewals are signed by the cluster key; ends and reclaims name the assignment that
//	               they end, and one that names none is not believed; assignments say when they were
//	               issued; vouches
const Protocol = 2

// OtherProtocol is the error for what a program of another protocol sent: it names both versions
// and what to upgrade.
func OtherProtocol(code Code, what string, other int) *Error {
	err := Errorf(code,
		"%s is of protocol %d, and this program speaks protocol %d", what, other, Protocol).At("protocol")
	if other < Protocol {
		return err.Fix("upgrade the agent that sent it")
	}
	return err.Fix("upgrade this program: the broker first, then the agents")
}

// Names of our API, routes, namespace and default pool.
const (
	// Group and Version name our kinds in Kubernetes and our routes in REST.
	Group   = "bourse.dev"
	Version = "v1alpha1"
	// Prefix is where the REST API lives on a broker and on an agent's own listener.
	Prefix = "/apis/" + Group + "/" + Version
	// Namespace is where a cluster keeps what belongs to its agent.
	Namespace = "bourse"
	// GeneralPool is the pool that a request means when it names none.
	GeneralPool = "general"
)
