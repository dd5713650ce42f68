package market

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Time is milliseconds since 1970 UTC: what the market reckons with and journals.
type Time int64

// At converts a time.
func At(t time.Time) Time { return Time(t.UnixMilli()) }

// Go converts back.
func (t Time) Go() time.Time { return time.UnixMilli(int64(t)).UTC() }

func (t Time) plus(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// Meta converts to what payloads hold; 0 is absent.
func (t Time) Meta() metav1.Time {
	if t == 0 {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Go())
}

// Member is what the market remembers of a cluster: at the broker who asked to join, in an agent whose
// key it has pinned. Records are immutable: a change is a new one.
type Member struct {
	Cluster string          `json:"cluster"`
	State   api.MemberState `json:"state"`
	// Key is the cluster key in base64url: pinned when first seen.
	Key string `json:"key"`
	// Former are the keys that it had before, oldest first: each signed the next. None of them is
	// believed again.
	Former []Former `json:"former,omitempty"`
	// Rekeyed is, at a broker, the revision at which Key took the place of another one: holds that have not
	// changed since name that other key. 0: it never had another.
	Rekeyed uint64 `json:"rekeyed,omitempty"`
	// Token and TLSKey (hash of the public key) say what it joined with, so that a retry of
	// the same join is answered again.
	Token  string `json:"token,omitempty"`
	TLSKey string `json:"tlsKey,omitempty"`
	// TLSKeys are the keys whose certificates by the broker's own CA are good, newest last. Empty:
	// the broker's CA issued none in this membership, or none since the broker keeps this list.
	TLSKeys []TLSKey `json:"tlsKeys,omitempty"`
	// CertificatesFrom ends all certificates that any CA issued before that time. 0: none.
	CertificatesFrom Time   `json:"certificatesFrom,omitempty"`
	Source           string `json:"source,omitempty"`
	Joined           Time   `json:"joined"`
	Changed          Time   `json:"changed,omitempty"`
	// Trusted is, in an agent, the fingerprint that its own admin says the cluster has; Confirmed
	// says that Key has it.
	Trusted   string `json:"trusted,omitempty"`
	Confirmed bool   `json:"confirmed,omitempty"`
	// Suspended is, in an agent, why its own admin lends this consumer nothing more; empty: the admin does.
	Suspended string `json:"suspended,omitempty"`
	// Connector is, in an agent, the URL of the cluster's connector, as its card last said; empty:
	// it has none.
	Connector string `json:"connector,omitempty"`
	// Endorsed is when the newest endorsement of it that was believed was issued.
	Endorsed Time `json:"endorsed,omitempty"`
	// Caps are what the operator says that it may have, where that is not what all may.
	Caps *Caps `json:"caps,omitempty"`
	// Legacy says that Key is none of the cluster's: the broker derived it, and signs in the name of an agent
	// that cannot.
	Legacy bool `json:"legacy,omitempty"`
	// Enabled are, at the broker, the providers that it chose among; nil: it never chose, and all are.
	Enabled *Enabled `json:"enabled,omitempty"`
	// Card is its newest card, Signed the document (JWS) that it came in.
	Card   *api.Card `json:"card,omitempty"`
	Signed string    `json:"signed,omitempty"`
}

// Former is a key that signed its successor.
type Former struct {
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
}

// Token is a join token. Its secret is known only by hash.
type Token struct {
	ID      string `json:"id"`
	Hash    string `json:"hash"`
	Cluster string `json:"cluster,omitempty"`
	Expires Time   `json:"expires"`
	UsedBy  string `json:"usedBy,omitempty"`
	due     *due
}

// Reservation is what the market remembers of one. Records are immutable: a change is a new one.
type Reservation struct {
	ID       string  `json:"id"`
	Consumer string  `json:"consumer"`
	Pool     string  `json:"pool"`
	Size     Amounts `json:"size"`
	// Key is the idempotency key that made it, Digest the hash of what came with it.
	Key    string `json:"key,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Sale is the plan that it is made from; nil: none.
	Sale *api.Sale `json:"sale,omitempty"`
	// Group are the parts of a request that is split, of which this is one; empty: it is whole.
	Group []string `json:"group,omitempty"`
	// Request is what was asked; only the broker and the consumer know it.
	Request *api.Request `json:"request,omitempty"`

	State    api.State  `json:"state"`
	Reason   api.Reason `json:"reason,omitempty"`
	Message  string     `json:"message,omitempty"`
	Provider string     `json:"provider,omitempty"`
	// Generation is that of its assignment: each that is signed has a higher one.
	Generation int64 `json:"generation"`

	Created   Time `json:"created"`
	Changed   Time `json:"changed"`
	HeldUntil Time `json:"heldUntil,omitempty"`
	// ApproveBy is until when a person at the provider may approve it; 0: nobody need.
	ApproveBy Time `json:"approveBy,omitempty"`
	Deadline  Time `json:"deadline,omitempty"`
	Until     Time `json:"until,omitempty"`
	// Longest is, at a gate, the latest end that this cluster has accepted of it, where that is later than
	// Until: the documents say so still.
	Longest Time `json:"longest,omitempty"`
	// AcceptBy is, at the gate, until when the newest assignment that it accepted could be accepted. 0: an
	// older version wrote it.
	AcceptBy Time `json:"acceptBy,omitempty"`
	// WaitUntil is how long its request waits where no cluster can serve it; 0: it does not. WaitedSince is
	// when it was asked for, if it waited before it was Created.
	WaitUntil   Time `json:"waitUntil,omitempty"`
	WaitedSince Time `json:"waitedSince,omitempty"`
	// Ended is when it began to end.
	Ended Time `json:"ended,omitempty"`
	// RememberUntil is until when it is remembered although it is over, where that is longer than usual: its
	// provider may not know yet.
	RememberUntil Time `json:"rememberUntil,omitempty"`
	// From is since when the units of Sale are paid for; Past says which were before.
	From Time      `json:"from,omitempty"`
	Past []Stretch `json:"past,omitempty"`

	// Next are the providers to try after this one, best first; Tried those that did not accept.
	Next []string `json:"next,omitempty"`
	// Plans are, by provider, what those of the candidates would sell that do not lend.
	Plans map[string]*api.Sale `json:"plans,omitempty"`
	Tried []api.Tried          `json:"tried,omitempty"`

	Assignment string `json:"assignment,omitempty"`
	Acceptance string `json:"acceptance,omitempty"`
	End        string `json:"end,omitempty"`
	// Reclaim is the seller's word that it takes it back at ReclaimAt.
	Reclaim   string `json:"reclaim,omitempty"`
	ReclaimAt Time   `json:"reclaimAt,omitempty"`
	// Change is what it is to become, Shrunk what it lost when it last became smaller.
	Change *Change `json:"change,omitempty"`
	Shrunk *Shrunk `json:"shrunk,omitempty"`

	// Adopted is when a broker adopted it, which both had signed without that broker; 0: the broker
	// held it itself.
	Adopted Time `json:"adopted,omitempty"`
	// Promise is, at a broker, what became of a promise that a provider made with it.
	Promise *Promise `json:"promise,omitempty"`

	// Via is, in an agent, the cluster by whose connector it was made, or "broker/NAME"; empty: by
	// the main broker.
	Via string `json:"via,omitempty"`
	// Object is, in a consumer's agent, the ResourceRequest that this answers.
	Object *Object `json:"object,omitempty"`
	// Fence is, in an agent, the newest instruction that it has seen.
	Fence api.Fence `json:"fence,omitzero"`

	// Revision is the journal's when it last changed, Why the kept explanation, Offer the one that
	// Sale names, Bytes about how much memory the record takes. Set by Apply.
	Revision uint64 `json:"-"`
	Bytes    int64  `json:"-"`
	Why      Why    `json:"-"`
	Offer    *Offer `json:"-"`
	due      *due   // of the reservation, whichever record of it is the newest
}

// Stretch is a time for which units of a plan were sold: from From to the next one's.
type Stretch struct {
	From  Time  `json:"from"`
	Units int64 `json:"units"`
}

// Object names a Kubernetes object for good.
type Object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Slice is the name of the reservation's ResourceSlice.
func (r *Reservation) Slice() string {
	if r.Provider == "" {
		return ""
	}
	return SliceName(r.Consumer, r.Provider, r.Pool)
}
