// Package kubernetes serves members through objects in the broker's own cluster: what internal/transport/kubernetes is the other
// end of.
//
// A member is bound when it is approved: it gets a namespace, and there an account with the rights of a member. One that has nothing but objects
// to ask with is bound before that, by an admin. Both is Bind.
//
// The broker looks at the namespaces that are bound to a cluster, and has a desk for each: it makes the member's
// ClusterAdvertisement, makes the calls that the member writes there, in memory and as that member, by the REST API,
// and writes the answers. Whose calls they are the namespace says, not what is written. Beside that it paints: what the
// API shows to the member of itself and of its reservations. Everything is level-based: what was changed or deleted by
// others is put right, and after a restart a call that has no answer yet is made again, which is harmless.
//
// Of a legacy member, whose agent is of the prototypes, the advertisement is read in their shape, and what it is shown
// of its reservations is its instructions: package resourceagent explains what that means.
package kubernetes
