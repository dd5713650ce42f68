package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of an offer.
const (
	// MaxPlans is how many plans an offer may have.
	MaxPlans = 16
	// MaxUnits is how many units a plan may have, and how many of them one contract may buy.
	MaxUnits = 1_000_000
	// MaxOffers is how many offers a seller may have on sale.
	MaxOffers = 256
)

// ReasonOffSaleAtBroker is the reason of the condition Ready of an Offer that a program with this
// cluster's certificate took off sale at the broker. It is on sale here.
const ReasonOffSaleAtBroker = "OffSaleAtBroker"

// OfferSpec is what a provider sells. It is on sale once its agent has signed and published it,
// from ValidFrom to ValidUntil, while the SharingPolicy shares what its plans sell.
type OfferSpec struct {
	// Draft keeps the offer off sale: the agent does not sign it. Default false.
	// +optional
	Draft bool `json:"draft,omitempty"`
	// Type is a word that buyers can search for, for example compute, gpu or storage.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[ \pL\pM\pN\pP\pS]*$`
	// +optional
	Type string `json:"type,omitempty"`
	// Description is free text for buyers.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[\n \pL\pM\pN\pP\pS]*$`
	// +optional
	Description string `json:"description,omitempty"`
	// Labels are free. Buyers can search for them. Names and values have at most 256 printable
	// characters.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule=`self.all(name, size(name) <= 256 && size(self[name]) <= 256 && (name + self[name]).matches(r'^[ \pL\pM\pN\pP\pS]*$'))`,message="the name and the value of a label have at most 256 printable characters each"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// ValidFrom and ValidUntil bound the time of a purchase. A contract may last longer. Default: no bound.
	// +optional
	ValidFrom *metav1.Time `json:"validFrom,omitempty"`
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// VisibleTo says which members see the offer, among those that see this cluster. Empty: all of them.
	// +optional
	VisibleTo Audience `json:"visibleTo,omitzero"`
	// Accept is a CEL expression over `consumer` (cluster, region, labels ...) and `request`
	// (resources, pool, seconds), like the SharingPolicy's `allow`. A sale needs it to be true.
	// Default: true.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Accept string `json:"accept,omitempty"`
	// ApproveWithin says that an admin here approves each sale (bourse approve), and how long a
	// buyer waits for that: one minute to 24 h. The capacity is held meanwhile. Absent: the agent
	// answers at once.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	ApproveWithin *metav1.Duration `json:"approveWithin,omitempty"`
	// Plans are the things to buy, by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Plans []Plan `json:"plans"`
}

// Plan is one thing that a buyer can buy. Resources and Price are those of one unit.
type Plan struct {
	// Name identifies the plan within its offer.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Description is free text for buyers.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[\n \pL\pM\pN\pP\pS]*$`
	// +optional
	Description string `json:"description,omitempty"`
	// Resources are those of one unit. The resource "storage" is volume storage, if the pool lends
	// it: the quota of the buyer's namespaces at the seller.
	Resources Resources `json:"resources"`
	// Pool is the pool of these resources. Default "general".
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Pool string `json:"pool,omitempty"`
	// Price is the price of one unit. Absent: free.
	// +optional
	Price *Price `json:"price,omitempty"`
	// Quantity is how many units can be sold at the same time. Default: only capacity bounds them.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Quantity int64 `json:"quantity,omitempty"`
	// Units bounds the units of one contract. Absent: one unit.
	// +optional
	Units *Units `json:"units,omitempty"`
	// MinDuration and MaxDuration bound the duration of a contract. Default: the bounds of every reservation.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	MinDuration *metav1.Duration `json:"minDuration,omitempty"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
	// Notice allows the seller to take a contract back before its end, with this much notice
	// (spot): one minute to 720 h. Absent: a contract lasts to its end, and a seller that ends it
	// earlier breaches it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	Notice *metav1.Duration `json:"notice,omitempty"`
	// Dedicated gives the whole pool to the buyer. It is sold only while no other consumer has
	// anything in the pool here. While the contract counts, no other consumer gets anything in the
	// pool. Default false.
	// +optional
	Dedicated bool `json:"dedicated,omitempty"`
}

// Units bounds the units of one contract: Min, or Min plus multiples of Step, up to Max.
//
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",message="max is less than min"
type Units struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Min int64 `json:"min"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Max int64 `json:"max"`
	// Step is the difference between two allowed numbers of units. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Step int64 `json:"step,omitempty"`
}

// Price is an exact amount of money for a period. A part of a period costs that part of the amount.
type Price struct {
	// Amount is a decimal number: at most nine digits before the point and nine after it.
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?$`
	Amount string `json:"amount"`
	// Currency is the ISO 4217 code ("EUR").
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
	// Period is the time that the amount pays for. Months and years are calendar months and years,
	// from the beginning of the contract.
	Period Period `json:"period"`
}

// Period is the time unit of a price.
//
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

// SignedOffer is the document that a seller signs. Nobody can change it on its way to a buyer.
type SignedOffer struct {
	Protocol int `json:"protocol"`
	// Seller is the selling cluster, Name the name of the offer.
	Seller string `json:"seller"`
	Name   string `json:"name"`
	// Version grows with each edit. Older versions are no longer sold.
	Version int64     `json:"version"`
	Offer   OfferSpec `json:"offer"`
}

// Plan returns the plan of a name. It is nil if there is none.
func (o *OfferSpec) Plan(name string) *Plan {
	for i := range o.Plans {
		if o.Plans[i].Name == name {
			return &o.Plans[i]
		}
	}
	return nil
}

// Purchase names the plan to buy, and how many units of it.
type Purchase struct {
	// Seller is the provider.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Seller string `json:"seller"`
	// Offer and Plan are names.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Offer string `json:"offer"`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Plan string `json:"plan"`
	// Units is how many units to buy. Default: the smallest number that the plan sells.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Units int64 `json:"units,omitempty"`
	// Digest is that of the signed offer that the buyer saw ("SHA256:..."). If set, nothing else is
	// bought: if the seller changed the offer meanwhile, the request is refused.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Digest string `json:"digest,omitempty"`
	// MaxPrice is the ceiling for one unit if Digest is empty, in the plan's currency and period.
	// With neither, only a free plan can be bought.
	// +optional
	MaxPrice *Price `json:"maxPrice,omitempty"`
}

// Sale names the plan of a reservation. The consumer signs it with its assignment, which makes the
// reservation a contract.
type Sale struct {
	// Offer is the digest of the seller's signed offer ("SHA256:...").
	Offer string `json:"offer"`
	// Plan is the name of the plan.
	Plan string `json:"plan"`
	// Units is how many units of the plan.
	Units int64 `json:"units"`
}

// Offer is what this cluster sells. It is in the agent's namespace. Deleting it takes it off sale;
// existing contracts stay.
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

// ConditionPublishedAgain of an Offer: what the agent did about the last annotation bourse.dev/publish-again. Reasons:
// PublishedAgain; if nothing was changed: Invalid (it is no time), Forbidden (the offer is a draft). Absent: there was no
// such annotation.
const ConditionPublishedAgain = "PublishedAgain"

// OfferStatus says what of an offer is on sale.
type OfferStatus struct {
	// Conditions: Ready says whether the offer of the spec is on sale, and why not, PublishedAgain how the agent answered
	// an annotation.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Version and Digest are those of the signed offer on sale.
	Version int64  `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Sold is how many units of each plan are sold now.
	Sold map[string]int64 `json:"sold,omitempty"`
	// Answered are the values of annotations that were answered, by the name of the annotation after "bourse.dev/":
	// publish-again. The agent acts on no value twice.
	// +kubebuilder:validation:MaxProperties=8
	Answered map[string]string `json:"answered,omitempty"`
}
