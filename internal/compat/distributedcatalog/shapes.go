package distributedcatalog

import (
	"encoding/json"
	"fmt"
)

// Provider is a cluster as the prototype names it.
type Provider struct {
	ClusterID         string `json:"clusterID"`
	ClusterName       string `json:"clusterName"`
	ClusterPrettyName string `json:"clusterPrettyName,omitempty"`
	// Token was Liqo's. It is read and dropped, and empty in every answer: agents peer without one.
	Token string `json:"token"`
	// Endpoint was that of Liqo's authentication, which Liqo no longer has. It is the connector's
	// URL, or the broker's.
	Endpoint string `json:"endpoint"`
	// ClusterContractEndpoint is where what the cluster sells is bought: at its connector, or where
	// it has none at the broker. Nobody is called there because a caller says so.
	ClusterContractEndpoint string `json:"clusterContractEndpoint"`
}

// Catalog is what one provider sells.
type Catalog struct {
	Provider
	// Created is that of the newest offer, in milliseconds; 0: no offer says.
	Created int64   `json:"created"`
	Offers  []Offer `json:"offers"`
}

// Offer is an offer as the prototype writes it.
type Offer struct {
	OfferID           string `json:"offerID"`
	OfferName         string `json:"offerName"`
	OfferType         string `json:"offerType"`
	ClusterPrettyName string `json:"clusterPrettyName"`
	Description       string `json:"description"`
	Plans             []Plan `json:"plans"`
	// Created is in milliseconds since 1970.
	Created json.Number `json:"created"`
	// Status says that it is on sale. Default true.
	Status *bool `json:"status"`
	// ClusterID is the seller's. Default: the caller's.
	ClusterID string `json:"clusterID,omitempty"`
	// Document is the seller's signed offer (JWS), which puts it on sale at a broker.
	Document string `json:"document,omitempty"`
}

// Plan is a plan as the prototype writes it.
type Plan struct {
	PlanID   string `json:"planID"`
	PlanName string `json:"planName"`
	// PlanCost is an amount of PlanCostCurrency for a PlanCostPeriod; 0 is free.
	PlanCost         json.Number `json:"planCost"`
	PlanCostCurrency string      `json:"planCostCurrency"`
	PlanCostPeriod   string      `json:"planCostPeriod"`
	// PlanQuantity is how many may be sold; in a catalog, how many are left. Absent, or a million:
	// as many as fit.
	PlanQuantity *int64 `json:"planQuantity"`
	// Resources are cpu, memory (or ram), storage and gpu; OtherResources those that the prototype
	// has no word for.
	Resources      map[string]Amount `json:"resources"`
	OtherResources map[string]Amount `json:"otherResources,omitempty"`
}

// Amount is a Kubernetes quantity as text. The prototype's README also writes {"core": 4}.
type Amount string

// UnmarshalJSON reads both.
func (a *Amount) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*a = Amount(text)
		return nil
	}
	var structured struct {
		Core *json.Number `json:"core"`
	}
	if json.Unmarshal(data, &structured) == nil && structured.Core != nil {
		*a = Amount(structured.Core.String())
		return nil
	}
	return fmt.Errorf("%.40s is no quantity: write it as text, such as \"500m\" or \"8Gi\"", data)
}

// ContractDocument is a contract as the prototype writes it, with what it did not know of one.
type ContractDocument struct {
	ContractID string   `json:"contractID"`
	BuyerID    string   `json:"buyerID"`
	Seller     Provider `json:"seller"`
	// Offer is the whole offer as it was signed.
	Offer  Offer  `json:"offer"`
	PlanID string `json:"planID"`
	// Enabled says that it is in force.
	Enabled bool `json:"enabled"`
	// Created is in seconds since 1970.
	Created int64 `json:"created"`

	Units int64  `json:"units"`
	State string `json:"state"`
	Until int64  `json:"until,omitempty"`
	// Cost is what it comes to ("12.50 EUR"); empty: it is free.
	Cost string `json:"cost,omitempty"`
}

// BrokerDocument is a broker that a cluster deals with.
type BrokerDocument struct {
	BrokerID       string `json:"brokerID"`
	BrokerName     string `json:"brokerName"`
	BrokerEndpoint string `json:"brokerEndpoint"`
	// Subscribed says that the agent is connected.
	Subscribed bool `json:"subscribed"`
	// JWTToken is empty; the prototype's code and its reference name it differently.
	JWTToken  string `json:"JWTToken"`
	JWTToken2 string `json:"jwt-token"`
}

// PeeringDocument is a peering, as the prototype meant to list it: each word is None, Pending or Established.
type PeeringDocument struct {
	ClusterID         string       `json:"clusterID"`
	Name              string       `json:"name"`
	Networking        string       `json:"networking"`
	Authentication    string       `json:"authentication"`
	OutgoingPeering   string       `json:"outgoingPeering"`
	OutgoingResources PeeringUsage `json:"outgoingResources"`
	IncomingPeering   string       `json:"incomingPeering"`
	IncomingResources PeeringUsage `json:"incomingResources"`
	Age               string       `json:"age"`
}

// PeeringUsage is what one cluster has of another by contracts, and what of that its pods request,
// as Kubernetes writes amounts.
type PeeringUsage struct {
	UsedCPUs    string `json:"usedCpus"`
	UsedMemory  string `json:"usedMemory"`
	TotalCPUs   string `json:"totalCpus"`
	TotalMemory string `json:"totalMemory"`
}

// frame is what a connector sends to who subscribed.
type frame struct {
	Type int       `json:"type"`
	Body frameBody `json:"body"`
}

type frameBody struct {
	Event int    `json:"event"`
	Data  string `json:"data"`
}

// Types and events of frames, as the prototype numbers them.
const (
	frameText   = 1  // what a broker said
	frameBroker = 20 // a broker came or went

	eventBroker  = 1
	eventCatalog = 2
	eventError   = 3
)
