package api

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CatalogQuery is a search of the catalog. The zero query finds everything that the caller may see, by name.
type CatalogQuery struct {
	// Text occurs in the seller, name, type, description or a label. Case does not matter.
	Text string
	// Seller, Type and Region must be equal. GPU occurs in the name of one of the seller's GPUs, and
	// selects plans with a GPU. SellerGPU does too, and selects all plans of that seller. Currency is
	// that of a plan, unless it is free.
	Seller, Type, Region, GPU, SellerGPU, Currency string
	// MaxPrice is the ceiling for the smallest number of units of a plan, over the time of For. It
	// leaves out plans in other currencies.
	MaxPrice *Price
	// Available leaves out plans that are sold out, and sellers that are silent.
	Available bool
	// For selects plans that are sold for this long, with their cost for that time. 0: plans of any
	// duration, with the cost of one hour.
	For time.Duration
	// Hidden includes the offers of sellers that have been silent for more than a day.
	Hidden bool
	// Uptime is the lowest uptime of the seller over the last 30 days, in parts per million. A
	// seller with unknown uptime does not match.
	Uptime int64
	// Sort is the order. The zero value is ByName.
	Sort CatalogOrder
}

// CatalogOrder is an order of the catalog. Within each the order is that of names.
type CatalogOrder string

const (
	ByName CatalogOrder = ""
	// ByPrice sorts by the cost of the cheapest plan: free plans first, then one currency after the other.
	ByPrice CatalogOrder = "price"
	// ByRegion sorts by the seller's region. Sellers without a region come first.
	ByRegion CatalogOrder = "region"
	// ByUptime sorts by the seller's uptime, highest first. Sellers with unknown uptime come last.
	ByUptime CatalogOrder = "uptime"
)

// Listing is an offer as a member sees it in the catalog. Its ID is "SELLER/NAME".
type Listing struct {
	Seller  string `json:"seller"`
	Name    string `json:"name"`
	Version int64  `json:"version"`
	// Digest is the digest of Document, the signed offer (JWS).
	Digest   string    `json:"digest"`
	Document string    `json:"document"`
	Offer    OfferSpec `json:"offer"`
	// Properties are the seller's. Fresh says that the lease of its agent is alive.
	Properties Properties `json:"properties"`
	Fresh      bool       `json:"fresh"`
	// Uptime is the seller's uptime over the last 30 days, in parts per million. Absent until the
	// broker has seen the seller for a day.
	Uptime *int64 `json:"uptime,omitempty"`
	// SilentSince is about when the lease of a silent seller ended, Fading how far its offers have
	// faded. Both are empty if the seller is fresh.
	SilentSince *metav1.Time `json:"silentSince,omitempty"`
	Fading      Fading       `json:"fading,omitempty"`
	// AsOf says that the listing is from the agent's own copy of the catalog, as it was at that
	// time: neither a broker nor the seller answers now. Empty: the listing is current.
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// Plans say what is left of each plan, by name.
	Plans map[string]PlanListing `json:"plans"`
}

// Fading is how far the offer of a silent seller has faded. The offer is still on sale: when the
// seller is back, it is back, too.
type Fading string

const (
	// Stale: the seller's lease ended. Nobody can buy from it now.
	Stale Fading = "Stale"
	// Hidden: searches leave the offer out, unless they ask for hidden ones. It begins after HiddenAfter.
	Hidden Fading = "Hidden"
	// ExpiredOffer: the offer is not shown any more. It begins after ExpiredAfter.
	ExpiredOffer Fading = "Expired"
)

const (
	// HiddenAfter and ExpiredAfter are how long a seller is silent until its offers are hidden, and
	// until they expire.
	HiddenAfter  = 24 * time.Hour
	ExpiredAfter = 30 * 24 * time.Hour
)

// FadingAfter returns how far an offer has faded after its seller has been silent for a time.
func FadingAfter(silent time.Duration) Fading {
	switch {
	case silent >= ExpiredAfter:
		return ExpiredOffer
	case silent >= HiddenAfter:
		return Hidden
	}
	return Stale
}

// PlanListing says what is left of a plan.
type PlanListing struct {
	// Remaining is how many units can be sold now, bounded by the quantity and by the seller's free capacity.
	Remaining int64 `json:"remaining"`
	// Cost is the cost of the smallest number of units for the requested duration, rounded to the
	// currency's minor unit ("12.50"). Empty: it is free.
	Cost string `json:"cost,omitempty"`
}
