package api

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds of signed documents. Each is a compact JWS (EdDSA by a cluster key) over
// RFC 8785 canonical JSON; the kind is in its header, so that one can never be
// taken for another.
const (
	DocumentCard       = "card"       // [Card]
	DocumentAssignment = "assignment" // [Assignment], by the consumer
	DocumentAcceptance = "acceptance" // [Acceptance], by the provider
	DocumentEnd        = "end"        // [End], by either
	DocumentReclaim    = "reclaim"    // [Reclaim], by the seller
	DocumentHandshake  = "handshake"  // [Handshake], by either
	DocumentOffer      = "offer"      // [SignedOffer], by the seller
	DocumentProposal   = "proposal"   // [Proposal], by the buyer
	DocumentVouch      = "vouch"      // [Vouch], by either, with the key that it has now

	DocumentEndorsement = "endorsement" // [Endorsement], by a federation's offline root
	DocumentRotation    = "rotation"    // [Rotation], by the key that is succeeded
)

// MaxRotations is how many key rotations a card shows at most: the newest.
const MaxRotations = 16

// MaxAssignment is the largest JWS of an assignment, in bytes. It suffices for 64 resources whose
// names have 3 KiB together. Both parties and the broker keep it for as long as the reservation
// lasts.
const MaxAssignment = 8 << 10

// Assignment is a request bound to one provider. The consumer signs it, and the provider's gate
// accepts nothing else. It names both parties and their keys, so it is worth nothing to others. It
// names a generation and an expiry, so it cannot be used again.
type Assignment struct {
	Protocol    int    `json:"protocol"`
	Reservation string `json:"reservation"`
	// Issued is when the consumer signed it, and never before the assignment that it replaces. So
	// nobody takes an assignment of an earlier reservation with the same ID for a newer one of this
	// reservation.
	Issued metav1.Time `json:"issued,omitzero"`
	// Generation counts the assignments of a reservation: each new provider or size adds one.
	Generation int64 `json:"generation"`
	// Consumer and Provider are cluster IDs, the keys their fingerprints.
	Consumer    string `json:"consumer"`
	ConsumerKey string `json:"consumerKey"`
	Provider    string `json:"provider"`
	ProviderKey string `json:"providerKey"`
	// Pool is the pool. Slice is the name of the account's ResourceSlice in Liqo.
	Pool  string `json:"pool"`
	Slice string `json:"slice"`
	// Resources is the size.
	Resources Resources `json:"resources"`
	// Until is when the reservation ends, in UTC.
	Until metav1.Time `json:"until"`
	// Expires is the deadline for the provider: an acceptance after it is void.
	Expires metav1.Time `json:"expires"`
	// Sale is the plan, with the offer that has its price. With it the assignment is the buyer's
	// part of a contract. Nil: no purchase.
	Sale *Sale `json:"sale,omitempty"`
	// Begins is, for a sale, the time from which the units are paid for.
	Begins metav1.Time `json:"begins,omitzero"`
	// Relend says that the consumer lends on what it reserves.
	Relend bool `json:"relend,omitempty"`
	// RelendKey is that of the request. Slice depends on it.
	RelendKey string `json:"relendKey,omitempty"`
}

// Acceptance is the provider's yes to one assignment. It binds the provider until Expires, and for
// the whole reservation once the broker has committed it.
type Acceptance struct {
	Protocol    int    `json:"protocol"`
	Reservation string `json:"reservation"`
	Generation  int64  `json:"generation"`
	Consumer    string `json:"consumer"`
	Provider    string `json:"provider"`
	// Assignment is the digest of the assignment's JWS ("SHA256:...").
	Assignment string      `json:"assignment"`
	Expires    metav1.Time `json:"expires"`
}

// End is a party's signed statement that a reservation ends.
type End struct {
	Protocol    int    `json:"protocol"`
	Reservation string `json:"reservation"`
	// Assignment is the digest of the JWS of the assignment that it ends. It ends no other
	// assignment, even with the same ID.
	Assignment string `json:"assignment,omitempty"`
	// Generation is the newest that the signer knows. An end does not end a newer assignment.
	Generation int64  `json:"generation"`
	By         string `json:"by"`
	Consumer   string `json:"consumer"`
	Provider   string `json:"provider"`
	Reason     Reason `json:"reason"`
	// At is when its signer began to end it. Absent: an older version signed it.
	At metav1.Time `json:"at,omitzero"`
}

// Reclaim is a seller's signed statement that it takes a contract back before its end, with the
// notice of its plan. It is not an End: a party that does not understand it keeps the reservation
// until the seller ends it, which is not before Effective.
type Reclaim struct {
	Protocol    int    `json:"protocol"`
	Reservation string `json:"reservation"`
	Consumer    string `json:"consumer"`
	Provider    string `json:"provider"`
	// Assignment is the digest of the JWS of the buyer's assignment, which names the offer: the
	// contract to take back.
	Assignment string `json:"assignment,omitempty"`
	// Issued is when the seller signed it. Effective is when the contract ends, at least the notice later.
	Issued    metav1.Time `json:"issued"`
	Effective metav1.Time `json:"effective"`
}

// Differs returns an error that names the first field in which b differs from a. It is nil if there
// is none. Quantities and times are compared by value.
func (a Assignment) Differs(b Assignment) error {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"protocol", a.Protocol == b.Protocol}, {"reservation", a.Reservation == b.Reservation},
		{"generation", a.Generation == b.Generation},
		{"consumer", a.Consumer == b.Consumer}, {"consumerKey", a.ConsumerKey == b.ConsumerKey},
		{"provider", a.Provider == b.Provider}, {"providerKey", a.ProviderKey == b.ProviderKey},
		{"pool", a.Pool == b.Pool}, {"slice", a.Slice == b.Slice},
		{"resources", equality.Semantic.DeepEqual(a.Resources, b.Resources)},
		{"until", a.Until.Equal(&b.Until)}, {"expires", a.Expires.Equal(&b.Expires)},
		{"begins", a.Begins.Equal(&b.Begins)}, {"sale", equality.Semantic.DeepEqual(a.Sale, b.Sale)},
		{"relend", a.Relend == b.Relend}, {"relendKey", a.RelendKey == b.RelendKey},
	} {
		if !f.same {
			return Invalid("document."+f.name, "the assignment differs from the hold").
				Fix("read the reservation again and sign what it says")
		}
	}
	return nil
}

// Vouch is a cluster's statement that an assignment is in force although one of its former keys
// signed or accepted it. The present key signs the vouch. A thief of a former key can sign
// documents with an old date, but cannot vouch for them.
type Vouch struct {
	Protocol    int    `json:"protocol"`
	Cluster     string `json:"cluster"`
	Reservation string `json:"reservation"`
	// Assignment is the digest of the assignment's JWS.
	Assignment string `json:"assignment"`
}

// Endorsement is a root's statement of the key of a cluster. The cluster's card carries it, so that
// clusters that trust the root need not confirm each key. The root is a key that is kept offline,
// except to sign.
type Endorsement struct {
	Protocol int    `json:"protocol"`
	Cluster  string `json:"cluster"`
	// Fingerprint is that of the cluster's key.
	Fingerprint string `json:"fingerprint"`
	// Issued orders the endorsements of a cluster. A newer one may name another key; older ones are
	// no longer accepted.
	Issued  metav1.Time `json:"issued"`
	Expires metav1.Time `json:"expires"`
}

// Rotation is a statement, signed by a cluster's key, of the key that succeeds it. The cluster's
// card carries it. So a cluster that pinned the old key trusts the new one without an admin. It
// holds the old key itself, so that a cluster that knows only the fingerprint can follow it, too.
type Rotation struct {
	Protocol int    `json:"protocol"`
	Cluster  string `json:"cluster"`
	// From is the key that signs, To the key that succeeds it: raw Ed25519 public keys, base64url
	// without padding.
	From   string      `json:"from"`
	To     string      `json:"to"`
	Issued metav1.Time `json:"issued"`
}
