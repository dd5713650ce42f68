package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all our kinds.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme teaches a scheme our kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ResourceRequest{}, &ResourceRequestList{},
		&ReservationInstruction{}, &ReservationInstructionList{},
		&ProviderInstruction{}, &ProviderInstructionList{},
		&SharingPolicy{}, &SharingPolicyList{},
		&Advertisement{}, &AdvertisementList{},
		&Ledger{}, &LedgerList{},
		&Peering{}, &PeeringList{},
		&Peer{}, &PeerList{},
		&Offer{}, &OfferList{},
		&Contract{}, &ContractList{},
		&Broker{}, &BrokerList{},
		&VirtualNodePool{}, &VirtualNodePoolList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
