package api

import (
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
	// Balance prefers the provider with most left after the reservation.
	Balance Strategy = "balance"
	// Pack prefers the provider with least left after the reservation.
	Pack Strategy = "pack"
	// Reliable prefers the provider with the highest uptime that keeps its promises; a hundredth of either is worth as much as all
	// that may be left.
	Reliable Strategy = "reliable"
	// Cheap prefers the provider that costs least; a hundredth of MaxPrice is worth as much as all that may be left.
	Cheap Strategy = "cheap"
)

// DefaultDuration is how long a reservation lasts that says nothing of it.
const DefaultDuration = "24h"

// Request is what a consumer asks for.
// +kubebuilder:validation:XValidation:rule="has(self.purchase) || (has(self.resources) && size(self.resources) > 0 && size(self.resources) <= 64)",message="ask for 1 to 64 resources, or for a plan of an offer"
type Request struct {
	// Resources is how much is asked, at least one positive amount. Required, unless Purchase says it.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// Purchase, if set, is the plan of an offer that is bought: it says provider, pool and resources.
	// +optional
	Purchase *Purchase `json:"purchase,omitempty"`
	// Duration is how long, from the moment of the hold. Default 24h, between 1m and 8760h.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Pool is which kind of the provider's capacity. Default "general".
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Pool string `json:"pool,omitempty"`
	// Where is a CEL expression over a provider's properties that must be true,
	// for example `region == "eu" && "amd64" in architectures && uptime >= 0.99`. A property that the
	// provider does not advertise makes it unknown, which is not true.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Where string `json:"where,omitempty"`
	// Properties must each be equal to the provider's label of that name.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
	// Target, if set, is the only provider considered.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Target string `json:"target,omitempty"`
	// Exclude names providers that are not considered.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Exclude []string `json:"exclude,omitempty"`
	// Prefer names providers that are preferred among those that qualify, best first.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Prefer []string `json:"prefer,omitempty"`
	// Strategy weighs the scorers. Default balance.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`
	// Confirm makes the reservation wait, held, until its user confirms it. Default false:
	// the consumer's agent signs at once.
	// +optional
	Confirm bool `json:"confirm,omitempty"`
	// Network is what pods of this cluster and the provider's have between them: `wireguard`, Liqo's network, of which the
	// reservation is Active only once it stands, or `none`. Default none. Both clusters' admins must allow it.
	// +optional
	Network NetworkMode `json:"network,omitempty"`
	// PodShape is the largest pod that is to run there: some node of the provider must have that much free. It is at most Resources, and
	// names no other resource. Default: how the provider's nodes are filled does not matter.
	// +optional
	PodShape Resources `json:"podShape,omitempty"`
	// Wait is how long the request waits, Pending, where no cluster can serve it now: 1s to 720h. It is held as soon as one can,
	// and lasts its whole duration from then on; after that time it is Rejected. Default: it does not wait.
	// +optional
	Wait *metav1.Duration `json:"wait,omitempty"`
	// Priority is the order in which requests that wait are served: those of a higher one first, among the same the oldest. Default 0.
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// Split is on how many providers at most the request may be, in equal parts: on as few as can serve it, all of them or none. Each part is
	// a reservation of its own, with a virtual node. A request that may be split neither waits nor changes, and is no purchase. Default 1: it is not split.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	// +optional
	Split int32 `json:"split,omitempty"`
	// StickTo names the providers that have volumes of what is to run there: no other is considered. The consumer's agent adds them
	// for the namespaces that are offloaded, unless their Data may move. Default: none has any.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	StickTo []string `json:"stickTo,omitempty"`
	// MaxPrice is the most that all of it may cost, over its duration. A cluster that lends by offers only is then considered with its
	// cheapest plan that has what is asked for: if it is chosen, the reservation is a contract. Prices in another currency are never
	// compared. Default: nothing is bought but what Purchase names.
	// +optional
	MaxPrice *Price `json:"maxPrice,omitempty"`
}
