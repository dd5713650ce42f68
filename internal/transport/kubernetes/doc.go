// Package kubernetes reaches a broker through objects in the broker's own cluster, where its REST API cannot be reached.
//
// Each member has a namespace there ([Namespace]), bound to its cluster ID by the label [ClusterLabel], and in it one
// ClusterAdvertisement, its own, and a Reservation for each of its reservations. Both kinds are the prototypes' ([Group]).
// In spec.calls of the ClusterAdvertisement the agent writes the calls that it would make by REST, and in status.answers
// the broker answers them: all that [transport.Broker] says goes that way, and nothing else is said. The rest of the
// objects is a picture, for people and for agents of the prototypes. The journal is the truth.
//
//	spec:
//	  clusterID: rome
//	  calls:
//	    kq3v7bh2: {method: POST, path: /apis/bourse.dev/v1alpha1/reservations, key: r1, body: '{"request":{...}}'}
//	status:
//	  answers:
//	    kq3v7bh2: {status: 201, body: '{"id":"r-...","payload":{...}}', done: true}
//
// A long answer, and that to a watch, which has no end, is read in pieces: the agent says how far it has read, and the
// broker goes on from there. A call is taken away once it is answered, or nobody waits for its answer any more.
//
// [Open] is this as an [http.RoundTripper], so that the client and the transport over it are those of REST.
package kubernetes
