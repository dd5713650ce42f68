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
