package api

// Envelope is how REST returns a payload. ID names it among its kind; Revision
// grows with each change of it and is its ETag.
//
// +kubebuilder:object:generate=false
type Envelope[T any] struct {
	ID       string `json:"id"`
	Revision uint64 `json:"revision"`
	Payload  T      `json:"payload"`
}

// List is how REST returns several payloads, sorted by ID. Continue, when not
// empty, is what to pass as ?continue= to get the next page.
//
// +kubebuilder:object:generate=false
type List[T any] struct {
	Items    []Envelope[T] `json:"items"`
	Continue string        `json:"continue,omitempty"`
}

// Envelopes returns the objects of a list as users read them.
func Envelopes[O, T any](objects []O, envelope func(*O) Envelope[T]) []Envelope[T] {
	out := make([]Envelope[T], len(objects))
	for i := range objects {
		out[i] = envelope(&objects[i])
	}
	return out
}

// Envelope returns a ResourceRequest as users read it.
func (r *ResourceRequest) Envelope() Envelope[RequestStatus] {
	return Envelope[RequestStatus]{ID: r.Namespace + "/" + r.Name, Revision: uint64(r.Generation),
		Payload: RequestStatus{Request: r.Spec.Request, Offload: r.Spec.Offload, Status: r.Status,
			Created: r.CreationTimestamp}}
}

// Envelope returns an Offer as users of its cluster read it.
func (o *Offer) Envelope() Envelope[OwnOffer] {
	return Envelope[OwnOffer]{ID: o.Name, Revision: uint64(o.Generation), Payload: OwnOffer{Spec: o.Spec, Status: o.Status}}
}

// Envelope returns a Peer as users read it.
func (p *Peer) Envelope() Envelope[KnownPeer] {
	return Envelope[KnownPeer]{ID: p.Name, Revision: uint64(p.Generation),
		Payload: KnownPeer{Spec: p.Spec, Status: p.Status}}
}

// Envelope returns a VirtualNodePool as users read it.
func (p *VirtualNodePool) Envelope() Envelope[KnownVirtualNodePool] {
	return Envelope[KnownVirtualNodePool]{ID: p.Name, Revision: uint64(p.Generation),
		Payload: KnownVirtualNodePool{Spec: p.Spec, Status: p.Status}}
}
