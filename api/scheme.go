package api

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all our kinds.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme teaches a scheme our kinds.
func AddToScheme(s *runtime.Scheme) error {
	add[ResourceRequest](s)
	add[ReservationInstruction](s)
	add[ProviderInstruction](s)
	add[SharingPolicy](s)
	add[Agent](s)
	add[Advertisement](s)
	add[Ledger](s)
	add[Peering](s)
	add[Peer](s)
	add[Offer](s)
	add[Contract](s)
	add[Proposal](s)
	add[Broker](s)
	add[VirtualNodePool](s)
	add[Session](s)
	add[ClusterSession](s)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// add teaches a scheme a kind and its list.
func add[T any, P object[T]](s *runtime.Scheme) {
	kind := GroupVersion.WithKind(reflect.TypeFor[T]().Name())
	s.AddKnownTypeWithName(kind, P(new(T)))
	kind.Kind += "List"
	s.AddKnownTypeWithName(kind, &KindList[T, P]{})
}

// Lists of objects of our kinds.
type (
	ResourceRequestList        = KindList[ResourceRequest, *ResourceRequest]
	ReservationInstructionList = KindList[ReservationInstruction, *ReservationInstruction]
	ProviderInstructionList    = KindList[ProviderInstruction, *ProviderInstruction]
	SharingPolicyList          = KindList[SharingPolicy, *SharingPolicy]
	AgentList                  = KindList[Agent, *Agent]
	AdvertisementList          = KindList[Advertisement, *Advertisement]
	LedgerList                 = KindList[Ledger, *Ledger]
	PeeringList                = KindList[Peering, *Peering]
	PeerList                   = KindList[Peer, *Peer]
	OfferList                  = KindList[Offer, *Offer]
	ContractList               = KindList[Contract, *Contract]
	ProposalList               = KindList[Proposal, *Proposal]
	BrokerList                 = KindList[Broker, *Broker]
	VirtualNodePoolList        = KindList[VirtualNodePool, *VirtualNodePool]
	SessionList                = KindList[Session, *Session]
	ClusterSessionList         = KindList[ClusterSession, *ClusterSession]
)

// KindList is a list of objects of one kind.
//
// +kubebuilder:object:generate=false
type KindList[T any, P object[T]] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// object is a pointer to an object of a kind.
//
// +kubebuilder:object:generate=false
type object[T any] interface {
	*T
	runtime.Object
	DeepCopyInto(*T)
}

// DeepCopyObject implements runtime.Object.
func (l *KindList[T, P]) DeepCopyObject() runtime.Object {
	out := &KindList[T, P]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	if l.Items == nil {
		return out
	}
	out.Items = make([]T, len(l.Items))
	for i := range l.Items {
		P(&l.Items[i]).DeepCopyInto(&out.Items[i])
	}
	return out
}
