package api

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of an offer.
const (
	// MaxPlans is how many plans an offer may have.
	MaxPlans = 16
	// MaxOffers is how many offers a seller may have on sale.
	MaxOffers = 256
)

// OfferSpec is what a provider sells: the spec of an Offer. It is on sale once its agent has signed and published it, from
// ValidFrom to ValidUntil, while the SharingPolicy shares what its plans sell.
type OfferSpec struct {
	// Draft keeps it off sale: it is not signed. Default false.
	// +optional
	Draft bool `json:"draft,omitempty"`
	// Type is a word that buyers search by, for example compute, gpu or storage.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Type string `json:"type,omitempty"`
	// Description is for people to read.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`
	// Labels are free; buyers search by them.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// ValidFrom and ValidUntil bound when it can be bought; a contract may last longer. Default: at once, and for ever.
	// +optional
	ValidFrom *metav1.Time `json:"validFrom,omitempty"`
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// VisibleTo says to whom the offer is shown, among those to whom the SharingPolicy shows this cluster. Empty: to all of them.
	// +optional
	VisibleTo Audience `json:"visibleTo,omitzero"`
	// Accept is a CEL expression over `consumer` (cluster, region, labels ...) and `request` (resources, pool, seconds), as in
	// the SharingPolicy's `allow`, that must be true for a sale. Default: true.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Accept string `json:"accept,omitempty"`
	// ApproveWithin says that a person here approves each sale (bourse approve), and how long a buyer waits for that: a minute to
	// 24 h. What waits is held for it. Absent: the agent answers at once.
	// +optional
	ApproveWithin *metav1.Duration `json:"approveWithin,omitempty"`
	// Plans are what can be bought, each by its name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Plans []Plan `json:"plans"`
}

// Plan is one thing that can be bought of an offer. Resources and Price are of one unit.
type Plan struct {
	// Name tells the plans of an offer apart.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Description is for people to read.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`
	// Resources are those of one unit. Among them "storage" is persistent volumes, where the pool lends them: the quota of the buyer's
	// namespaces at the seller.
	Resources Resources `json:"resources"`
	// Pool is the kind of capacity that they are of. Default "general".
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Pool string `json:"pool,omitempty"`
	// Price is that of one unit. Absent: free.
	// +optional
	Price *Price `json:"price,omitempty"`
	// Quantity is how many units may be sold at a time. Default: as many as there is capacity for.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Quantity int64 `json:"quantity,omitempty"`
	// Units says how many units one contract may have. Absent: one.
	// +optional
	Units *Units `json:"units,omitempty"`
	// MinDuration and MaxDuration bound how long a contract may last. Default: what any reservation may.
	// +optional
	MinDuration *metav1.Duration `json:"minDuration,omitempty"`
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
	// Notice lets the seller take a contract back before its end, so long after it said so (spot): a minute to 720 h. Absent: a contract
	// lasts to its end, and a seller who ends it before breaks it.
	// +optional
	Notice *metav1.Duration `json:"notice,omitempty"`
	// Dedicated says that the pool is the buyer's alone: it is sold while no other consumer has anything of the pool here, and as long
	// as the contract counts no other gets any. Default false.
	// +optional
	Dedicated bool `json:"dedicated,omitempty"`
}

// Units are how many units of a plan a contract may have: Min, and Step more each, up to Max.
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",message="max is less than min"
type Units struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Min int64 `json:"min"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Max int64 `json:"max"`
	// Step. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Step int64 `json:"step,omitempty"`
}

// Price is an exact amount of money for a period. What lasts for part of a period costs that part of it.
type Price struct {
	// Amount is a decimal number: at most nine digits before the point and nine after it.
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?$`
	Amount string `json:"amount"`
	// Currency is its ISO 4217 code ("EUR").
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
	// Period is what the amount pays for. Months and years are those of the calendar, from the day on which a contract begins.
	Period Period `json:"period"`
}

// Period is a length of time that prices are for.
// +kubebuilder:validation:Enum=minute;hour;day;week;month;year
type Period string

const (
	PeriodMinute Period = "minute"
	PeriodHour   Period = "hour"
	PeriodDay    Period = "day"
	PeriodWeek   Period = "week"
	PeriodMonth  Period = "month"
	PeriodYear   Period = "year"
)

// SignedOffer is what a seller signs: an offer that nobody can rewrite on its way to a buyer.
type SignedOffer struct {
	Protocol int `json:"protocol"`
	// Seller is the cluster whose offer it is, Name the offer's.
	Seller string `json:"seller"`
	Name   string `json:"name"`
	// Version grows with each edit; an older one is no longer sold.
	Version int64     `json:"version"`
	Offer   OfferSpec `json:"offer"`
}

// Plan is the plan of a name, nil if there is none.
func (o *OfferSpec) Plan(name string) *Plan {
	for i := range o.Plans {
		if o.Plans[i].Name == name {
			return &o.Plans[i]
		}
	}
	return nil
}

// Purchase is which plan a request is to be served from, and how many units of it.
type Purchase struct {
	// Seller is the provider.
	// +kubebuilder:validation:MaxLength=63
	Seller string `json:"seller"`
	// Offer and Plan are names.
	// +kubebuilder:validation:MaxLength=63
	Offer string `json:"offer"`
	// +kubebuilder:validation:MaxLength=63
	Plan string `json:"plan"`
	// Units is how many units. Default: the fewest that the plan sells.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Units int64 `json:"units,omitempty"`
	// Digest is that of the signed offer that was looked at ("SHA256:..."). If set, nothing else is bought: should the seller have
	// changed the offer meanwhile, the request is refused.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Digest string `json:"digest,omitempty"`
	// MaxPrice is the most that is paid for a unit where Digest is empty: in the plan's currency and for its period. Without either
	// only what is free is bought.
	// +optional
	MaxPrice *Price `json:"maxPrice,omitempty"`
}

// Sale says from which plan a reservation was made. A consumer signs it with its assignment: it is then a contract.
type Sale struct {
	// Offer is the digest of the seller's signed offer ("SHA256:...").
	Offer string `json:"offer"`
	// Plan is the name of the plan.
	Plan string `json:"plan"`
	// Units is how many units of it.
	Units int64 `json:"units"`
}

// CatalogQuery is what is looked for in the catalog. The zero query finds all that is shown to the caller, by name.
type CatalogQuery struct {
	// Text is in the seller, name, type, description or a label, in any case.
	Text string
	// Seller, Type and Region must be equal, GPU in the name of one of the seller's; Currency is that of a plan, if it is not free.
	Seller, Type, Region, GPU, Currency string
	// MaxPrice is the most that the fewest units of a plan may cost, over the time that For says; plans in other currencies are left out.
	MaxPrice *Price
	// Available leaves out what is sold out, and sellers that are silent.
	Available bool
	// For is how long: plans that are sold for so long, with what they cost then. 0: plans of any length, with the cost of an hour.
	For time.Duration
	// Hidden includes the offers of sellers that have been silent for more than a day.
	Hidden bool
	// Uptime is the least share of the last 30 days, in parts per million, in which the seller was there. Who is not known for long
	// enough is there at no share.
	Uptime int64
	// Sort is the order. The zero value is ByName.
	Sort CatalogOrder
}

// CatalogOrder is an order of the catalog. Within each the order is that of names.
type CatalogOrder string

const (
	ByName CatalogOrder = ""
	// ByPrice is by what the cheapest plan costs: free ones first, then currency by currency.
	ByPrice CatalogOrder = "price"
	// ByRegion is by the seller's region; those that say none come first.
	ByRegion CatalogOrder = "region"
	// ByUptime is by the share of the last 30 days in which the seller was there, the largest first; where it is not known, last.
	ByUptime CatalogOrder = "uptime"
)

// Listing is an offer as a member sees it in the catalog. Its ID is "SELLER/NAME".
type Listing struct {
	Seller  string `json:"seller"`
	Name    string `json:"name"`
	Version int64  `json:"version"`
	// Digest is that of Document, the signed offer (JWS).
	Digest   string    `json:"digest"`
	Document string    `json:"document"`
	Offer    OfferSpec `json:"offer"`
	// Properties are the seller's, Fresh says that its agent's lease is alive.
	Properties Properties `json:"properties"`
	Fresh      bool       `json:"fresh"`
	// Uptime is the share of the last 30 days in which the seller was there, in parts per million; absent where it was not known for a day.
	Uptime *int64 `json:"uptime,omitempty"`
	// SilentSince is about when the lease of a seller ended that is not fresh, and Fading what came of it; both are empty for one that is.
	SilentSince *metav1.Time `json:"silentSince,omitempty"`
	Fading      Fading       `json:"fading,omitempty"`
	// AsOf says that this is from the agent's own copy of the catalog: nobody who could say how it is now is reached, and this is how it
	// was then. Empty: it is so now.
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// Plans say, by name, what is left of each.
	Plans map[string]PlanListing `json:"plans"`
}

// Fading is how far an offer has faded whose seller is silent. Nobody takes it off sale: when the seller is back, it is there again.
type Fading string

const (
	// Stale is the offer of a seller whose lease ended: nothing can be bought of it now.
	Stale Fading = "Stale"
	// Hidden is one that searches leave out that do not ask for it, after HiddenAfter.
	Hidden Fading = "Hidden"
	// ExpiredOffer is one that is not shown any more, after ExpiredAfter.
	ExpiredOffer Fading = "Expired"
)

const (
	// HiddenAfter and ExpiredAfter are how long a seller is silent until its offers are hidden, and expire.
	HiddenAfter  = 24 * time.Hour
	ExpiredAfter = 30 * 24 * time.Hour
)

// FadingAfter is how far an offer has faded whose seller has been silent for that long.
func FadingAfter(silent time.Duration) Fading {
	switch {
	case silent >= ExpiredAfter:
		return ExpiredOffer
	case silent >= HiddenAfter:
		return Hidden
	}
	return Stale
}

// PlanListing is what is left of a plan.
type PlanListing struct {
	// Remaining is how many units can be sold now: what the quantity leaves, and what the seller really has free.
	Remaining int64 `json:"remaining"`
	// Cost is what the fewest units cost for the duration that was asked for, rounded to the currency's minor unit ("12.50").
	// Empty: it is free.
	Cost string `json:"cost,omitempty"`
}

// Offer is what this cluster sells, in the agent's namespace: deleting it takes it off sale. What was sold stays sold.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="the name of an offer has at most 63 of a-z, 0-9 and -"
// +kubebuilder:printcolumn:name="On sale",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Plans",type=string,JSONPath=`.spec.plans[*].name`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Offer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OfferSpec   `json:"spec"`
	Status            OfferStatus `json:"status,omitempty"`
}

// OfferStatus says what of an offer is on sale.
type OfferStatus struct {
	// Conditions: Ready says whether what the spec says is on sale, and why not.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Version and Digest are of the signed offer that is on sale.
	Version int64  `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Sold is how many units of each plan are sold now.
	Sold map[string]int64 `json:"sold,omitempty"`
}

// +kubebuilder:object:root=true

// OfferList is a list of offers.
type OfferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Offer `json:"items"`
}
