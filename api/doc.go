// Package api is the language that Bourse's parts and its users speak: every
// public shape, once.
//
// Each concept has one payload type. REST wraps it in an [Envelope] of id,
// revision and payload; a custom resource embeds it as its spec or status. So
// what `kubectl get` shows, what `curl` reads and what the Go client returns
// have the same fields with the same meaning.
//
// Start with request.go (what a consumer asks), decision.go (why it got what it
// got), reservation.go (the life of what it got) and documents.go (what is
// signed). cluster.go says what a provider shows, sharing.go what its admin
// allows. errors.go is the closed list of what can go wrong.
//
// Quantities are Kubernetes quantities ("500m", "8Gi"), durations are Go
// durations ("1h30m"), times are RFC 3339 in UTC.
//
// +kubebuilder:object:generate=true
// +groupName=bourse.dev
// +versionName=v1alpha1
package api

// Protocol is the version of what agents and brokers say to each other. A peer
// that speaks a newer one is told so and answered in ours.
//
//	1  2026-11-20  clusters, advertisements, evaluations, reservations, watch
//	1  2026-11-21  handshakes, networks in them; the standing of others in a watch
//	1  2026-11-21  rotations on cards: who does not know them refuses the card of a cluster whose key was rotated
//	1  2026-11-21  offers, and sales in assignments: who does not know them refuses an assignment that is from a plan
//	1  2026-11-21  API servers that are reached through a network: who does not know them cannot borrow there
//	1  2026-11-21  clusters without a key, and terms that accept them: who does not know them takes the broker's key on such a card for theirs
//	1  2026-11-23  vouches: a broker that does not know them does not adopt what a former key signed
//	1  2026-11-23  ends and reclaims name the assignment that they end: one that names none is not believed
//	1  2026-11-23  assignments say when they were issued: who does not know that refuses them
const Protocol = 1

// Names by which everything of ours is found.
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
