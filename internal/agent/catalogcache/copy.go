package catalogcache

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
)

// Unkept counts the offers that a copy does not keep because a broker or connector shows more than its bound.
var Unkept = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "bourse_agent_unkept_offers_total",
	Help: "Offers that a broker or connector showed beyond what the copy of the catalog keeps.",
})

// listing is an offer as the catalog shows it.
type listing = api.Envelope[api.Listing]

// offerCopy is what one broker or connector showed. Its exported fields are saved.
type offerCopy struct {
	// Token is that of the last bookmark. Empty: the copy is not complete.
	Token string `json:"token,omitempty"`
	// AsOf is when the copy was last up to date.
	AsOf metav1.Time `json:"asOf"`
	// Offers are those that it shows, by seller.
	Offers map[string][]listing `json:"offers"`

	pending map[string][]listing // in place of Offers, once everything has been sent; nil: nothing is being sent
	sizes   map[string]int       // of pending or, where that is nil, of Offers: bytes of memory by seller
	bytes   int                  // the sum of sizes
	less    bool                 // it showed more than is kept
	changed bool
	live    bool // there was news since MarkLost
}

// begin starts to take in changes or, if all is true, everything again.
func (o *offerCopy) begin(all bool) {
	o.dropPending()
	if all {
		o.pending = map[string][]listing{}
		o.sizes, o.bytes, o.less = nil, 0, false
	}
}

// complete ends what begin started: what was sent until now is up to date at a time. It reports whether
// the copy has changed since the last bookmark.
func (o *offerCopy) complete(token string, at metav1.Time) (changed bool) {
	if o.pending != nil {
		o.Offers, o.pending, o.changed = o.pending, nil, true
	}
	if o.Token, o.AsOf, o.live = token, at, true; o.less {
		o.Token = "" // it is not complete
	}
	changed, o.changed = o.changed, false
	return changed
}

// record replaces what a seller shows, or extends it by another part. Offers beyond most bytes of all
// sellers together are left out.
func (o *offerCopy) record(s *api.SellerOffers, most int) {
	offers := o.Offers
	if o.pending != nil {
		offers = o.pending
	}
	o.changed = true
	before := offers[s.Cluster]
	next := make([]listing, 0, len(s.Offers))
	switch {
	case s.Lease: // only whether the seller is alive has changed
		for _, l := range before {
			l.Payload.Fresh, l.Payload.SilentSince = s.Fresh, s.SilentSince
			next = append(next, l)
		}
	case s.Part > 0:
		next = o.add(append(next, before...), s, most)
	default:
		o.bytes -= o.sizes[s.Cluster]
		delete(o.sizes, s.Cluster)
		next = o.add(next, s, most)
	}
	if offers[s.Cluster] = next; len(next) == 0 {
		delete(offers, s.Cluster)
	}
}

// add appends the offers of a seller to list, as far as there is room. It skips offers that name another
// seller.
func (o *offerCopy) add(list []listing, s *api.SellerOffers, most int) []listing {
	for _, l := range s.Offers {
		if l.Payload.Seller != s.Cluster || l.ID != s.Cluster+"/"+l.Payload.Name {
			continue
		}
		size := memoryOf(&l)
		if o.bytes+size > most {
			o.less = true
			Unkept.Inc()
			continue
		}
		if o.sizes == nil {
			o.sizes = map[string]int{}
		}
		o.sizes[s.Cluster] += size
		o.bytes += size
		list = append(list, l)
	}
	return list
}

// dropPending forgets what was sent of everything without an end.
func (o *offerCopy) dropPending() {
	if o.pending != nil {
		o.pending = nil
		o.measure()
	}
}

// measure computes again how much memory the offers take.
func (o *offerCopy) measure() {
	o.sizes, o.bytes = map[string]int{}, 0
	for seller, offers := range o.Offers {
		for i := range offers {
			o.sizes[seller] += memoryOf(&offers[i])
		}
		o.bytes += o.sizes[seller]
	}
}

// memoryOf estimates how much memory an offer takes, in bytes.
func memoryOf(l *listing) int {
	data, err := json.Marshal(l)
	if err != nil {
		return math.MaxInt32 // no broker shows it
	}
	return int(decoded.Cost(data)) + int(unsafe.Sizeof(*l))
}

// halveSellers leaves out half of the sellers of each copy, and the token that would say that it is complete.
func halveSellers(copies map[string]*offerCopy) {
	for via, one := range copies {
		names := slices.Sorted(maps.Keys(one.Offers))
		part := &offerCopy{AsOf: one.AsOf, Offers: map[string][]listing{}}
		for _, name := range names[:len(names)/2] {
			part.Offers[name] = one.Offers[name]
		}
		copies[via] = part
	}
}
