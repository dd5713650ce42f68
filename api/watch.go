package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// WatchCatalog opens the part of the catalog, in a watch that asked for it: Complete says whether the sellers that follow, up to the
	// next bookmark, are all that show the caller anything, or those of whom there is news. It comes again when the caller is shown
	// other offers than before, as by a new card.
	WatchCatalog WatchType = "CATALOG"
	// WatchSeller carries what a seller shows the caller, in place of what it showed before.
	WatchSeller WatchType = "SELLER"
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
	Seller   *Stall    `json:"seller,omitempty"`
	Error    *Error    `json:"error,omitempty"`
}

// Stall is what a seller shows a member of what it sells.
//
// +kubebuilder:object:generate=false
type Stall struct {
	Cluster string `json:"cluster"`
	// Offers are in place of those that were told before. None: nothing of it is shown any more. What is left of their plans is as it
	// was when this was told: news of that alone is not.
	Offers []Envelope[Listing] `json:"offers,omitempty"`
	// Part is 0 for the first event of a seller, which replaces what was told before, and counts those that add to it.
	Part int `json:"part,omitempty"`
	// Lease says that only Fresh and SilentSince are news; the offers are those that were told before.
	Lease       bool         `json:"lease,omitempty"`
	Fresh       bool         `json:"fresh"`
	SilentSince *metav1.Time `json:"silentSince,omitempty"`
}
