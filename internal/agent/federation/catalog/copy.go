package catalog

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
	shown

	pending *shown // in place of shown, once everything has been sent; nil: nothing is being sent
	changed bool
	live    bool // there was news since MarkLost
}

// shown are offers within a bound.
type shown struct {
	// Offers are those that are kept, by seller.
	Offers map[string][]listing `json:"offers"`

	sizes map[string]int // bytes of memory by seller
	bytes int            // the sum of sizes
	less  bool           // there were more than are kept
}

func newShown() *shown { return &shown{Offers: map[string][]listing{}, sizes: map[string]int{}} }

// begin starts to take in changes or, if all is true, everything again.
func (o *offerCopy) begin(all bool) {
	if o.pending = nil; all {
		o.pending = newShown()
	}
}

// complete ends what begin started: what was sent until now is up to date at a time. It reports whether
// the copy has changed since the last bookmark.
func (o *offerCopy) complete(token string, at metav1.Time) (changed bool) {
	if o.pending != nil {
		o.shown, o.pending, o.changed = *o.pending, nil, true
	}
	if o.Token, o.AsOf, o.live = token, at, true; o.less {
		o.Token = "" // it is not complete
	}
	changed, o.changed = o.changed, false
	return changed
}

// Size returns how much memory the copy takes, with what is to replace it.
func (o *offerCopy) Size() int {
	if o.pending == nil {
		return o.bytes
	}
	return o.bytes + o.pending.bytes
}

// Shrink drops offers until Size is at most so many bytes. What is being sent stays longest.
func (o *offerCopy) Shrink(most int) {
	o.yield(o.Size() - most)
	if o.pending != nil {
		o.pending.cut(most)
	} else {
		o.cut(most)
	}
	o.Token = "" // it is not complete
}

// yield drops offers of the copy that is about to be replaced, of so many bytes if it has them. It reports whether
// it dropped any.
func (o *offerCopy) yield(size int) bool {
	before := o.bytes
	if o.pending == nil || before == 0 {
		return false
	}
	o.cut(max(0, before-size))
	o.Token = ""
	return o.bytes < before
}

// record takes in what a seller shows: see shown.record.
func (o *offerCopy) record(s *api.SellerOffers, admit func(size int) bool) {
	o.changed = true
	if o.pending != nil {
		o.pending.record(s, admit)
	} else {
		o.shown.record(s, admit)
	}
}

// record replaces what a seller shows, or extends it by another part. Offers that are not admitted are left out.
func (o *shown) record(s *api.SellerOffers, admit func(size int) bool) {
	before := o.Offers[s.Cluster]
	switch {
	case s.Lease: // only whether the seller is alive has changed
		for i := range before {
			before[i].Payload.Fresh, before[i].Payload.SilentSince = s.Fresh, s.SilentSince
		}
		return
	case s.Part == 0:
		o.bytes -= o.sizes[s.Cluster]
		delete(o.sizes, s.Cluster)
		delete(o.Offers, s.Cluster)
	}
	for _, l := range s.Offers {
		if l.Payload.Seller != s.Cluster || l.ID != s.Cluster+"/"+l.Payload.Name {
			continue // it names another seller
		}
		size := memoryOf(&l)
		if !admit(size) {
			o.less = true
			Unkept.Inc()
			continue
		}
		o.sizes[s.Cluster] += size
		o.bytes += size
		o.Offers[s.Cluster] = append(o.Offers[s.Cluster], l)
	}
}

// cut drops offers until the rest takes at most so many bytes.
func (o *shown) cut(most int) {
	for seller, list := range o.Offers {
		for o.bytes > most && len(list) > 0 {
			last := len(list) - 1
			size := min(memoryOf(&list[last]), o.sizes[seller])
			if last == 0 {
				size = o.sizes[seller]
			}
			list[last] = listing{}
			list = list[:last]
			o.sizes[seller] -= size
			o.bytes -= size
			o.less = true
			Unkept.Inc()
		}
		if o.Offers[seller] = list; len(list) == 0 {
			delete(o.Offers, seller)
			delete(o.sizes, seller)
		}
	}
}

// measure computes how much memory the offers take, which is not saved.
func (o *shown) measure() {
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
	for via, copied := range copies {
		names := slices.Sorted(maps.Keys(copied.Offers))
		part := &offerCopy{AsOf: copied.AsOf, shown: *newShown()}
		for _, name := range names[:len(names)/2] {
			part.Offers[name] = copied.Offers[name]
		}
		copies[via] = part
	}
}
