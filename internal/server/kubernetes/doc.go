// Package kubernetes serves members through objects in the broker's own cluster. Package
// internal/transport/kubernetes is the other end.
//
// [Bind] gives a member a namespace and in it an account with the rights of a member. A member is bound
// when it is approved. An admin binds a member that has only objects to ask with before that.
//
// The broker watches the namespaces that are bound to a cluster and has a session for each. A session
// creates the member's ClusterAdvertisement. It carries out the calls that the member writes there, in
// memory, as that member, with the REST API, and writes the answers. The namespace identifies the caller,
// not the content. The session also writes what the API shows to the member about itself and its
// reservations. Everything is level-based: a session corrects what others change or delete. After a
// restart it repeats a call without an answer, which is harmless.
//
// A legacy member, with a prototype's agent, writes its advertisement in the prototype's form and gets its
// reservations as instructions: see package objects.
package kubernetes
