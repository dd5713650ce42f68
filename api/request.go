package api

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resources are amounts by resource name, as Kubernetes writes them: "cpu",
// "memory", "nvidia.com/gpu", any other.
type Resources = corev1.ResourceList

// Strategy is a named weighting of the scorers.
// +kubebuilder:validation:Enum=balance;pack;reliable;cheap
type Strategy string

const (
	// Balance prefers the provider with the most capacity left after the reservation.
	Balance Strategy = "balance"
	// Pack prefers the provider with the least capacity left after the reservation.
	Pack Strategy = "pack"
	// Reliable prefers high uptime and kept promises. One percentage point of either outweighs any
	// difference in free capacity.
	Reliable Strategy = "reliable"
	// Cheap prefers the lowest cost. One hundredth of MaxPrice outweighs any difference in free capacity.
	Cheap Strategy = "cheap"
)

// DefaultDuration is the duration of a reservation whose request gives none.
const DefaultDuration = "24h"

// LongestDuration is the longest that a request may ask for, and that a reservation may last from when it began.
const LongestDuration = 365 * 24 * time.Hour

// DurationOf returns the duration that a request or its template gives, DefaultDuration if it gives none.
func DurationOf(given *metav1.Duration) time.Duration {
	if given != nil {
		return given.Duration
	}
	d, _ := time.ParseDuration(DefaultDuration)
	return d
}

// Request is what a consumer asks for.
// +kubebuilder:validation:XValidation:rule="has(self.purchase) || (has(self.resources) && size(self.resources) > 0 && size(self.resources) <= 64)",message="ask for 1 to 64 resources, or for a plan of an offer"
type Request struct {
	// Resources is the requested size, with at least one positive amount. Required, unless Purchase is set.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// Purchase, if set, names the plan of an offer to buy. The plan sets provider, pool and resources.
	// +optional
	Purchase *Purchase `json:"purchase,omitempty"`
	// Duration is how long the reservation lasts, from the time of the hold. Default 24h, between
	// 1m and 8760h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Pool is the provider's pool. Default "general".
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Pool string `json:"pool,omitempty"`
	// Where is a CEL expression over a provider's properties that must be true, for example `region
	// == "eu" && "amd64" in architectures && uptime >= 0.99`. A property that the provider does not
	// publish is unknown, and the request does not match.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Where string `json:"where,omitempty"`
	// Properties must each be equal to the provider's label of that name. Names and values have at
	// most 316 printable characters.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule=`self.all(name, size(name) <= 316 && size(self[name]) <= 316 && (name + self[name]).matches(r'^[ \pL\pM\pN\pP\pS]*$'))`,message="the name and the value of a property have at most 316 printable characters each"
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
	// Target, if set, is the only provider to consider.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Target string `json:"target,omitempty"`
	// Exclude names providers not to consider.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Exclude []string `json:"exclude,omitempty"`
	// Prefer names providers to prefer among those that qualify, best first.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Prefer []string `json:"prefer,omitempty"`
	// Strategy is the weighting of the scorers. Default balance.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`
	// Confirm keeps the reservation held until its user confirms it. Default false: the consumer's
	// agent signs at once.
	// +optional
	Confirm bool `json:"confirm,omitempty"`
	// Network is the network between pods of this cluster and of the provider. `wireguard`: Liqo's
	// network; the reservation becomes Active once the network is up. `none`: no network. Default
	// none. Both clusters' admins must allow it.
	// +optional
	Network NetworkMode `json:"network,omitempty"`
	// PodShape is the largest pod that will run there: one node of the provider must have that much
	// free. It is at most Resources, and names no other resource. Default: the free capacity of
	// single nodes does not matter.
	// +optional
	PodShape Resources `json:"podShape,omitempty"`
	// Wait is how long the request waits, Pending, if no cluster can serve it now: 1s to 720h. It
	// is held as soon as a cluster can serve it, and its whole duration counts from then. After
	// Wait it is Rejected. Default: it does not wait.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	Wait *metav1.Duration `json:"wait,omitempty"`
	// Priority orders waiting requests: the highest is served first, and among equal ones the
	// oldest. Default 0.
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// Split is the largest number of providers for the request, in equal parts. The broker uses as
	// few as possible, and reserves all parts or none. Each part is a reservation of its own, with
	// its own virtual node. A split request cannot wait, cannot change and cannot be a purchase.
	// Default 1: one provider.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	// +optional
	Split int32 `json:"split,omitempty"`
	// Relend says that this cluster lends on what it reserves: it is a hub. Only providers whose
	// SharingPolicy allows that (relend) are considered, and no other hub. Default false.
	// +optional
	Relend bool `json:"relend,omitempty"`
	// RelendKey makes the name of the virtual node of a request with Relend one that customers cannot
	// guess: they see it, and would find the provider by it. The consumer's agent sets it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	RelendKey string `json:"relendKey,omitempty"`
	// Aggregated says that hubs are considered, too. A hub lends on what it borrows, and does not
	// say from which providers. Default: a hub is considered only as target or seller.
	// +optional
	Aggregated bool `json:"aggregated,omitempty"`
	// StickTo names the providers that hold volumes of the offloaded namespaces: no other provider
	// is considered. The consumer's agent sets it, unless the volumes may stay behind
	// (offload.data: Move). Default: none.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	StickTo []string `json:"stickTo,omitempty"`
	// MaxPrice is the ceiling for the total price over the duration. The broker then also considers
	// clusters that lend only by offers, each with its cheapest plan that serves the request. If
	// one is chosen, the reservation is a contract. Prices in another currency are never compared.
	// Default: nothing is bought except what Purchase names.
	// +optional
	MaxPrice *Price `json:"maxPrice,omitempty"`
}
