package api

// WatchType is the kind of a line of a watch.
type WatchType string

const (
	// WatchSnapshot opens a watch: Complete says whether what follows, up to the first
	// bookmark, is everything that concerns the caller, or what changed since its token.
	WatchSnapshot WatchType = "SNAPSHOT"
	// WatchReservation carries a reservation that is new or changed.
	WatchReservation WatchType = "RESERVATION"
	// WatchHandshake carries what another cluster says to the caller, on the way to a peering.
	WatchHandshake WatchType = "HANDSHAKE"
	// WatchStanding carries how far another party of the caller's reservations is a member: once in each watch, and when
	// it changes.
	WatchStanding WatchType = "STANDING"
	// WatchBookmark carries a token: resuming from it misses nothing that came before. The
	// first one ends the snapshot.
	WatchBookmark WatchType = "BOOKMARK"
	// WatchEnd says why the broker ends the watch.
	WatchEnd WatchType = "END"
)

// WatchEvent is one line of a watch (NDJSON). A watch tells of every reservation of
// which the caller is consumer or provider, and of the standing of each other party. Absence from a snapshot is never an instruction.
//
// +kubebuilder:object:generate=false
type WatchEvent struct {
	Type     WatchType              `json:"type"`
	Complete bool                   `json:"complete,omitempty"`
	Token    string                 `json:"token,omitempty"`
	Object   *Envelope[Reservation] `json:"object,omitempty"`
	// Document is a signed [Handshake].
	Document string    `json:"document,omitempty"`
	Standing *Standing `json:"standing,omitempty"`
	Error    *Error    `json:"error,omitempty"`
}
