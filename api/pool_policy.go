package api

import (
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/api/resource"
)

// PoolPolicy says what the cluster shares of the nodes of one pool. The shared amount is the
// smallest of Percentage of allocatable, Caps, and allocatable less Headroom.
//
// +kubebuilder:validation:XValidation:rule="!has(self.virtualNodes) || !has(self.nodeSelector) && !has(self.tolerateTaints) && !has(self.storage) && !has(self.storageClasses) && !has(self.ingressClasses) && !has(self.loadBalancerClasses) && !has(self.runtimeClasses)",message="a pool with virtualNodes has no nodeSelector, tolerateTaints, storage, and no classes"
type PoolPolicy struct {
	// Name is the name of the pool in requests. A request without a pool means "general".
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// NodeSelector selects the pool's nodes by label, and keeps consumers' pods on them. Empty: all nodes.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// VirtualNodes makes this a pool of what the cluster borrowed: the cluster is a hub. Consumers'
	// pods run at the providers of these nodes, never on the hub's own nodes. The pool is then the
	// only one of its policy. It lends neither storage nor classes nor a network. Default: the
	// cluster's own nodes.
	// +optional
	VirtualNodes *VirtualNodes `json:"virtualNodes,omitempty"`
	// TolerateTaints are keys of NoSchedule and NoExecute taints that do not exclude a node.
	// Nodes with other such taints do not count. Consumers' pods may tolerate these.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=316
	// +optional
	TolerateTaints []string `json:"tolerateTaints,omitempty"`
	// PlainConsumers name ResourceSlices of clusters with Liqo and without Bourse, of peerings made by hand.
	// Each slice is granted what it asks for, up to its max, which counts as allocated. The admission
	// policies treat the cluster as a brokered consumer. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=cluster
	// +listMapKey=slice
	// +optional
	PlainConsumers []PlainConsumer `json:"plainConsumers,omitempty"`
	// Percentage of allocatable, 0 to 100. Default 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percentage *int32 `json:"percentage,omitempty"`
	// Caps are absolute upper bounds for the resources they name.
	// +optional
	Caps Resources `json:"caps,omitempty"`
	// Headroom is kept back from allocatable for the cluster's own growth.
	// +optional
	Headroom Resources `json:"headroom,omitempty"`
	// Resources, if not empty, are the only resources that are shared.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=316
	// +optional
	Resources []string `json:"resources,omitempty"`
	// Storage is how much volume storage the pool lends, as the resource "storage". Nodes do not
	// report it, so give the amount beside what this cluster uses itself. A consumer's reserved
	// storage bounds requests.storage of all its namespaces here together. A consumer without
	// reserved storage gets none, unless namespaces.quota gives each namespace an amount. Default:
	// the pool lends none.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`
	// StorageClasses, IngressClasses and LoadBalancerClasses are further classes that consumers'
	// virtual nodes offer, by their names in this cluster. The first of each is the default. Empty:
	// none. Consumers' claims may name one of StorageClasses, and no other. The amount is set by
	// namespaces.quota, which can name a class
	// ("slow.storageclass.storage.k8s.io/requests.storage": "0").
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	StorageClasses []string `json:"storageClasses,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	IngressClasses []string `json:"ingressClasses,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty"`
	// RuntimeClasses are the runtime classes that consumers' pods may choose. A runtime class can
	// give a pod tolerations, or devices that nothing counts. Empty: none.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`
	// Placeholders has no effect. Deprecated: the agent no longer makes pods that hold reserved
	// capacity. A policy with this field stays valid, and its condition `IgnoredFields` names the
	// field. Reserve nodes with a label and a taint (nodeSelector, tolerateTaints).
	// +optional
	Placeholders *Placeholders `json:"placeholders,omitempty"`
}

// VirtualNodes says which virtual nodes a hub lends on.
type VirtualNodes struct {
	// Selector selects them by the labels of their Nodes. Of those that reservations made, only
	// nodes count whose reservations all say relend. Of the others, only those of byHand count.
	Selector VirtualNodeSelector `json:"selector"`
	// ByHand are virtual nodes of peerings that admins made by hand, with providers that may have no
	// Bourse. The selector must select them, too. No provider signed for them, so no offer sells
	// them. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=node
	// +optional
	ByHand []HandMadeNode `json:"byHand,omitempty"`
}

// HandMadeNode is a virtual node that no reservation made.
type HandMadeNode struct {
	// Node is its name. Customers can read it: it should name no provider.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Max is the most of it that is lent on. A resource that it does not name is not lent on.
	Max Resources `json:"max"`
}

// PlainConsumer is a ResourceSlice of a peering that was made by hand.
type PlainConsumer struct {
	// Cluster is the Liqo cluster ID of the consumer.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Cluster string `json:"cluster"`
	// Slice is the name of its ResourceSlice, which must be of class "bourse".
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Slice string `json:"slice"`
	// Max is the most that the slice is granted. Resources that it does not name are not granted, except
	// pods: by default as many as for a reservation of this size.
	Max Resources `json:"max"`
}

// VirtualNodeSelector selects virtual nodes. A pod selects nodes by single labels only, and so does this.
type VirtualNodeSelector struct {
	// MatchLabels are labels that a Node must have.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	MatchLabels map[string]string `json:"matchLabels"`
}

// Placeholders is what a policy of an earlier version may hold.
//
// Deprecated: it has no effect.
type Placeholders struct {
	// PriorityClass has no effect.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`
	// Image has no effect.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`
}

// Hub returns the pool of virtual nodes. It is nil if the cluster is no hub.
func (s *Sharing) Hub() *PoolPolicy {
	if s == nil || len(s.Pools) != 1 || s.Pools[0].VirtualNodes == nil {
		return nil
	}
	return &s.Pools[0]
}

// PlainConsumers yields the slices of plain consumers with the names of their pools. s may be nil.
func (s *Sharing) PlainConsumers() iter.Seq2[string, PlainConsumer] {
	return func(yield func(string, PlainConsumer) bool) {
		if s == nil {
			return
		}
		for _, p := range s.Pools {
			for _, c := range p.PlainConsumers {
				if !yield(p.Name, c) {
					return
				}
			}
		}
	}
}

// NamesPlain reports whether a cluster is a plain consumer. s may be nil.
func (s *Sharing) NamesPlain(cluster string) bool {
	for _, c := range s.PlainConsumers() {
		if c.Cluster == cluster {
			return true
		}
	}
	return false
}

// PodSelector returns the labels of nodes that consumers' pods must select.
func (p *PoolPolicy) PodSelector() map[string]string {
	if p.VirtualNodes == nil {
		return p.NodeSelector
	}
	out := map[string]string{"liqo.io/type": "virtual-node"}
	maps.Copy(out, p.VirtualNodes.Selector.MatchLabels)
	return out
}

// Pool returns the policy of the pool of a name. It is nil if the cluster does not share that pool.
func (s *Sharing) Pool(name string) *PoolPolicy {
	if s == nil {
		return nil
	}
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}
