// Package kubernetes reaches a broker through objects in the broker's own cluster, if its REST API cannot be
// reached.
//
// Each member has a namespace there ([Namespace]), bound to its cluster ID by the label [ClusterLabel]. It
// holds one ClusterAdvertisement, and a Reservation for each of the member's reservations. Both kinds are the
// prototypes' ([Group]). The agent writes the calls that it would make to the REST API into spec.calls of the
// ClusterAdvertisement, and the broker writes the answers into status.answers. This carries all of
// [transport.Broker]. The rest of the objects only informs users and agents of the prototypes. The journal is
// authoritative.
//
//	spec:
//	  clusterID: rome
//	  calls:
//	    kq3v7bh2: {method: POST, path: /apis/bourse.dev/v1alpha1/reservations, key: r1, body: '{"request":{...}}'}
//	status:
//	  answers:
//	    kq3v7bh2: {status: 201, body: '{"id":"r-...","payload":{...}}', done: true}
//
// A long answer, and the endless one to a watch, is read in pieces: the agent reports how far it
// has read, and the broker continues from there. A call is removed once it is answered, or nobody
// awaits its answer.
//
// [Open] returns this as an [http.RoundTripper] for the same client and transport as with REST.
package kubernetes
