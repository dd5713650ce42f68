package market

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Time is in milliseconds since 1970 UTC.
type Time int64

// At converts a time.
func At(t time.Time) Time { return Time(t.UnixMilli()) }

// Go converts back.
func (t Time) Go() time.Time { return time.UnixMilli(int64(t)).UTC() }

func (t Time) plus(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// Meta converts to the time of payloads. 0 is absent.
func (t Time) Meta() metav1.Time {
	if t == 0 {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Go())
}

// Member is the record of a cluster: at a broker, one that asked to join; in an agent, one with a pinned key.
// Records are immutable: a change is a new record.
type Member struct {
	Cluster string          `json:"cluster"`
	State   api.MemberState `json:"state"`
	// Key is the cluster key in base64url. The first one is pinned.
	Key string `json:"key"`
	// Former are its earlier keys, oldest first. Each signed the next. None is accepted again.
	Former []Former `json:"former,omitempty"`
	// Rekeyed is, at a broker, the revision at which Key replaced another key. Holds that have not changed
	// since name the other key. 0: it never had another.
	Rekeyed uint64 `json:"rekeyed,omitempty"`
	// Token and TLSKey (a hash of the public key) are those of its join, so that a retry of the join gets
	// the same answer.
	Token  string `json:"token,omitempty"`
	TLSKey string `json:"tlsKey,omitempty"`
	// TLSKeys are the keys whose certificates by the broker's own CA are good, newest last. Empty: the
	// broker's CA issued none in this membership, or an older version issued them.
	TLSKeys []TLSKey `json:"tlsKeys,omitempty"`
	// CertificatesFrom ends all certificates that any CA issued before. 0: none.
	CertificatesFrom Time   `json:"certificatesFrom,omitempty"`
	Source           string `json:"source,omitempty"`
	Joined           Time   `json:"joined"`
	Changed          Time   `json:"changed,omitempty"`
	// Trusted is, in an agent, the fingerprint that the agent's admin confirmed. Confirmed says that Key
	// has it.
	Trusted   string `json:"trusted,omitempty"`
	Confirmed bool   `json:"confirmed,omitempty"`
	// Suspended is, in an agent, why the agent's admin suspended this consumer. Empty: it is not suspended.
	Suspended string `json:"suspended,omitempty"`
	// Connector is, in an agent, the URL of the cluster's connector on its newest card. Empty: none.
	Connector string `json:"connector,omitempty"`
	// MaxNamespaces is, in an agent, that of the cluster's newest card. 0: it is not known.
	MaxNamespaces int32 `json:"maxNamespaces,omitempty"`
	// Address is, in an agent, where its own admin says that the cluster's connector is, HOST:PORT. It counts
	// before Connector.
	Address string `json:"address,omitempty"`
	// Endorsed is the time of issue of its newest accepted endorsement.
	Endorsed Time `json:"endorsed,omitempty"`
	// Caps are its own caps. Nil: those of all members.
	Caps *Caps `json:"caps,omitempty"`
	// Legacy says that the broker derived Key, and signs with it in the name of an agent that cannot sign.
	Legacy bool `json:"legacy,omitempty"`
	// Enabled are, at a broker, the providers that the cluster chose. Nil: all.
	Enabled *Enabled `json:"enabled,omitempty"`
	// Choices are, in an agent, what its own cluster chose at its brokers, as each last said.
	Choices []Choice `json:"choices,omitempty"`
	// Proposals are, in an agent, what the cluster proposed to this one.
	Proposals []Proposal `json:"proposals,omitempty"`
	// Card is its newest card, Signed the document (JWS) of the card.
	Card   *api.Card `json:"card,omitempty"`
	Signed string    `json:"signed,omitempty"`
}

// Former is a key that signed its successor.
type Former struct {
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
}

// Token is a join token. It has only a hash of the secret.
type Token struct {
	ID      string `json:"id"`
	Hash    string `json:"hash"`
	Cluster string `json:"cluster,omitempty"`
	Expires Time   `json:"expires"`
	UsedBy  string `json:"usedBy,omitempty"`
	due     *due
}

// Reservation is the record of a reservation. Records are immutable: a change is a new record.
type Reservation struct {
	ID       string       `json:"id"`
	Consumer string       `json:"consumer"`
	Pool     string       `json:"pool"`
	Size     amounts.List `json:"size"`
	// Key is the idempotency key of its request, Digest the hash of the request.
	Key    string `json:"key,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Sale is the purchased plan. Nil: no purchase.
	Sale *api.Sale `json:"sale,omitempty"`
	// Group are the IDs of all parts of a split request. Empty: it is not split.
	Group []string `json:"group,omitempty"`
	// Request is the request. Only the broker and the consumer know it.
	Request *api.Request `json:"request,omitempty"`

	State    api.State  `json:"state"`
	Reason   api.Reason `json:"reason,omitempty"`
	Message  string     `json:"message,omitempty"`
	Provider string     `json:"provider,omitempty"`
	// Generation is that of its assignment. Each newer assignment has a higher one.
	Generation int64 `json:"generation"`

	Created   Time `json:"created"`
	Changed   Time `json:"changed"`
	HeldUntil Time `json:"heldUntil,omitempty"`
	// ApproveBy is the deadline for an admin's approval at the provider. 0: no approval is needed.
	ApproveBy Time `json:"approveBy,omitempty"`
	Deadline  Time `json:"deadline,omitempty"`
	Until     Time `json:"until,omitempty"`
	// Longest is, at a gate, the latest end that this cluster accepted, if later than Until: signed documents
	// still have that end.
	Longest Time `json:"longest,omitempty"`
	// AcceptBy is, at a gate, the deadline for the acceptance of its newest assignment. 0: an older version
	// wrote the record.
	AcceptBy Time `json:"acceptBy,omitempty"`
	// WaitUntil is until when its request waits for capacity. 0: it does not wait. WaitedSince is the time
	// of the request, if it waited before it was Created.
	WaitUntil   Time `json:"waitUntil,omitempty"`
	WaitedSince Time `json:"waitedSince,omitempty"`
	// Ended is when its end began.
	Ended Time `json:"ended,omitempty"`
	// RememberUntil is until when the record of an ended reservation is kept, if its provider may not know
	// the end yet. 0: for the time of retention.
	RememberUntil Time `json:"rememberUntil,omitempty"`
	// From is when payment for the units of Sale begins. Past are the units before.
	From Time      `json:"from,omitempty"`
	Past []Stretch `json:"past,omitempty"`

	// Next are the providers to try after this one, best first. Tried are those where a hold ended unaccepted.
	Next []string `json:"next,omitempty"`
	// Plans are, by provider, the plans of the candidates that sell instead of lending.
	Plans map[string]*api.Sale `json:"plans,omitempty"`
	Tried []api.Tried          `json:"tried,omitempty"`

	Assignment string `json:"assignment,omitempty"`
	Acceptance string `json:"acceptance,omitempty"`
	End        string `json:"end,omitempty"`
	// Reclaim is the seller's signed statement that it takes the contract back at ReclaimAt.
	Reclaim   string `json:"reclaim,omitempty"`
	ReclaimAt Time   `json:"reclaimAt,omitempty"`
	// Change is the requested change, Shrunk the amount that it lost last.
	Change *Change `json:"change,omitempty"`
	Shrunk *Shrunk `json:"shrunk,omitempty"`

	// Adopted is when a broker adopted it: see [Adopt]. 0: the broker made it.
	Adopted Time `json:"adopted,omitempty"`
	// Promise is, at a broker, whether its provider kept its promise. Nil: undecided.
	Promise *Promise `json:"promise,omitempty"`

	// Via is, in an agent, the cluster whose connector made it, or "broker/NAME". Empty: the main broker.
	Via string `json:"via,omitempty"`
	// Object is, in a consumer's agent, its ResourceRequest.
	Object *Object `json:"object,omitempty"`
	// Relend says that the consumer lends it on.
	Relend bool `json:"relend,omitempty"`
	// RelendKey is that of the request.
	RelendKey string `json:"relendKey,omitempty"`
	// Fence is, in an agent, that of the newest instruction.
	Fence api.Fence `json:"fence,omitzero"`

	// Revision is the journal's revision of its last change, Why its explanation, Offer the offer of Sale, and
	// Bytes about how much memory the record takes. Apply sets them.
	Revision uint64 `json:"-"`
	Bytes    int64  `json:"-"`
	Why      Why    `json:"-"`
	Offer    *Offer `json:"-"`
	due      *due   // shared by all records of the reservation
}

// Stretch is a time for which units of a plan were sold: from From to the From of the next one.
type Stretch struct {
	From  Time  `json:"from"`
	Units int64 `json:"units"`
}

// Object identifies a Kubernetes object.
type Object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Slice returns the name of the reservation's ResourceSlice.
func (r *Reservation) Slice() string {
	if r.Provider == "" {
		return ""
	}
	return sliceName(r.Consumer, r.Provider, r.Pool, r.RelendKey)
}
