package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WatchType is the kind of a line of a watch.
type WatchType string

const (
	// WatchSnapshot opens a watch. Complete says whether the events up to the first bookmark are
	// everything that concerns the caller. If not, they are what changed since the caller's token.
	WatchSnapshot WatchType = "SNAPSHOT"
	// WatchReservation carries a reservation that is new or changed.
	WatchReservation WatchType = "RESERVATION"
	// WatchHandshake carries a message of another cluster to the caller, on the way to a peering.
	WatchHandshake WatchType = "HANDSHAKE"
	// WatchChoice carries the providers that the caller chose at the broker (/api/toggle), when that
	// changes. WatchSnapshot carries them, too.
	WatchChoice WatchType = "CHOICE"
	// WatchStanding carries the membership state of another party of the caller's reservations:
	// once in each watch, and when it changes.
	WatchStanding WatchType = "STANDING"
	// WatchCatalog opens the catalog part of a watch that asked for it. Complete says whether the
	// sellers up to the next bookmark are all that show the caller anything. If not, they are those
	// that changed. It comes again when the caller may see other offers than before, for example
	// after a new card.
	WatchCatalog WatchType = "CATALOG"
	// WatchSeller carries the offers of one seller. They replace those that came before.
	WatchSeller WatchType = "SELLER"
	// WatchBookmark carries a token. A watch that resumes from it misses nothing. The first
	// bookmark ends the snapshot.
	WatchBookmark WatchType = "BOOKMARK"
	// WatchEnd says why the broker ends the watch.
	WatchEnd WatchType = "END"
)

// WatchEvent is one line of a watch (NDJSON). A watch reports every reservation with the caller as
// consumer or provider, and the membership of each other party. Absence from a snapshot is never an
// instruction.
//
// +kubebuilder:object:generate=false
type WatchEvent struct {
	Type     WatchType `json:"type"`
	Complete bool      `json:"complete,omitempty"`
	// Providers are the only ones that may serve the caller's requests, as it chose. Nil: all may.
	Providers *[]string `json:"providers,omitempty"`
	Token     string    `json:"token,omitempty"`
	// Grown, in a bookmark, is when a cluster last had more capacity than before, in milliseconds
	// since 1970. While it stays the same, an ask that nobody could serve need not be repeated. A
	// cluster that asked what fits gets a bookmark as soon as it changes, once for each ask.
	Grown  int64                  `json:"grown,omitempty"`
	Object *Envelope[Reservation] `json:"object,omitempty"`
	// Document is a signed [Handshake].
	Document string        `json:"document,omitempty"`
	Standing *Membership   `json:"standing,omitempty"`
	Seller   *SellerOffers `json:"seller,omitempty"`
	Error    *Error        `json:"error,omitempty"`
}

// SellerOffers lists the offers of one seller that a member may see.
//
// +kubebuilder:object:generate=false
type SellerOffers struct {
	Cluster string `json:"cluster"`
	// Offers replace those that came before. None: the member sees nothing of this seller any more.
	// The units left are those at the time of the event: a change of that number alone makes no
	// event.
	Offers []Envelope[Listing] `json:"offers,omitempty"`
	// Part is 0 for the first event of a seller, which replaces what came before. It counts the
	// events that add to the first.
	Part int `json:"part,omitempty"`
	// Lease says that only Fresh and SilentSince changed. The offers are those that came before.
	Lease       bool         `json:"lease,omitempty"`
	Fresh       bool         `json:"fresh"`
	SilentSince *metav1.Time `json:"silentSince,omitempty"`
}
