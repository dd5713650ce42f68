package resourceagent

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/objects"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/payload"
)

// advertisementDTO is an advertisement, as the prototypes' agents publish and read it.
type advertisementDTO struct {
	ClusterID   string       `json:"clusterID"`
	ClusterName string       `json:"clusterName"`
	Resources   metricsDTO   `json:"resources"`
	Timestamp   time.Time    `json:"timestamp"`
	Cost        *costDTO     `json:"cost,omitempty"`
	Location    *locationDTO `json:"location,omitempty"`
	// These, the energy's cost and most of the location decide nothing: see [claims].
	Policy           string          `json:"policy,omitempty"`
	CarbonIntensity  []float64       `json:"carbonIntensity,omitempty"`
	CarbonLastUpdate json.RawMessage `json:"carbonLastUpdate,omitempty"`
}

// metricsDTO are the amounts of a cluster. Reserved is the broker's: what an agent sends there is not read.
type metricsDTO struct {
	Capacity    quantitiesDTO  `json:"capacity"`
	Allocatable quantitiesDTO  `json:"allocatable"`
	Allocated   quantitiesDTO  `json:"allocated"`
	Reserved    *quantitiesDTO `json:"reserved,omitempty"`
	Available   quantitiesDTO  `json:"available"`
}

// quantitiesDTO are amounts of the four resources that the prototypes know.
type quantitiesDTO struct {
	CPU     string `json:"cpu"`
	Memory  string `json:"memory"`
	GPU     string `json:"gpu,omitempty"`
	Storage string `json:"storage,omitempty"`
}

type costDTO struct {
	Renewable  bool    `json:"renewable,omitempty"`
	EnergyCost float64 `json:"energyCost,omitempty"`
}

// locationDTO is where a cluster is. Country, region and city are on its card, so that requests can
// select by them; the rest is a claim.
type locationDTO struct {
	CountryCode   string  `json:"countryCode,omitempty"`
	Region        string  `json:"region,omitempty"`
	City          string  `json:"city,omitempty"`
	ContinentCode string  `json:"continentCode,omitempty"`
	RegionName    string  `json:"regionName,omitempty"`
	Lat           float64 `json:"lat,omitempty"`
	Lon           float64 `json:"lon,omitempty"`
	ISP           string  `json:"isp,omitempty"`
	Org           string  `json:"org,omitempty"`
	AS            string  `json:"as,omitempty"`
}

// advertisedDTO is the answer to an advertisement, with the instructions that the provider has to carry out. Ignored are
// fields of its cost that have no effect.
type advertisedDTO struct {
	Advertisement        advertisementDTO `json:"advertisement"`
	ProviderInstructions []reservationDTO `json:"providerInstructions"`
	Ignored              []string         `json:"ignored,omitempty"`
}

// requestDTO asks for a reservation, or for an evaluation. What else the prototypes' clients send
// (priority, location) decided nothing there, or nothing that it should, and is not read.
type requestDTO struct {
	RequestedResources quantitiesDTO `json:"requestedResources"`
	// Duration is "1h"; the default is 24h.
	Duration        string `json:"duration"`
	TargetClusterID string `json:"targetClusterID"`
}

// evaluationDTO asks who could serve a request that a cluster may serve already.
type evaluationDTO struct {
	requestDTO
	// CurrentProviderID is the cluster that serves the caller now. MeasuredLatencyMs is the caller's latency to it in
	// milliseconds; 0: not measured.
	CurrentProviderID string  `json:"currentProviderID"`
	MeasuredLatencyMs float64 `json:"measuredLatencyMs"`
}

// reservationDTO is a reservation. No kubeconfig is in it, nor anywhere.
type reservationDTO struct {
	ID                 string        `json:"id"`
	RequesterID        string        `json:"requesterID"`
	TargetClusterID    string        `json:"targetClusterID"`
	RequestedResources quantitiesDTO `json:"requestedResources"`
	Status             statusDTO     `json:"status"`
	CreatedAt          time.Time     `json:"createdAt"`
}

type statusDTO struct {
	Phase      string     `json:"phase"`
	Message    string     `json:"message"`
	ReservedAt *time.Time `json:"reservedAt,omitempty"`
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
}

type reservationsDTO struct {
	Reservations []reservationDTO `json:"reservations"`
}

type candidatesDTO struct {
	CandidateClusters []candidateDTO `json:"candidateClusters"`
}

type candidateDTO struct {
	ClusterID   string `json:"clusterID"`
	Information string `json:"information"`
}

// shown is a reservation in their words.
func shown(r *market.Reservation) reservationDTO {
	out := reservationDTO{
		ID: r.ID, RequesterID: r.Consumer, TargetClusterID: r.Provider, RequestedResources: written(r.Size.Resources()),
		Status: statusDTO{Phase: objects.Phase(r.State), Message: r.Message}, CreatedAt: r.Created.Go(),
	}
	if out.Status.Message == "" {
		out.Status.Message = string(r.Reason)
	}
	if r.Until != 0 {
		until := r.EndsAt().Go()
		out.Status.ExpiresAt = &until
	}
	if r.Bound() {
		since := r.Created.Go()
		out.Status.ReservedAt = &since
	}
	return out
}

// named4 are the four resources, by what Kubernetes calls them.
var named4 = []struct {
	name  corev1.ResourceName
	json  string
	field func(*quantitiesDTO) *string
}{
	{"cpu", "cpu", func(q *quantitiesDTO) *string { return &q.CPU }},
	{"memory", "memory", func(q *quantitiesDTO) *string { return &q.Memory }},
	{"nvidia.com/gpu", "gpu", func(q *quantitiesDTO) *string { return &q.GPU }},
	{"ephemeral-storage", "storage", func(q *quantitiesDTO) *string { return &q.Storage }},
}

// written writes amounts in their words; what is not among the four is left out.
func written(from api.Resources) quantitiesDTO {
	out := quantitiesDTO{CPU: "0", Memory: "0"}
	for _, known := range named4 {
		if amount, ok := from[known.name]; ok {
			*known.field(&out) = amount.String()
		}
	}
	return out
}

// amounts reads amounts. One below 0 becomes 0 where negative says that there may be such. Errors:
// Invalid under field.
func (q quantitiesDTO) amounts(field string, negative bool) (api.Resources, error) {
	out := api.Resources{}
	for _, known := range named4 {
		text := *known.field(&q)
		if text == "" {
			continue
		}
		amount, err := payload.ParseQuantity(text)
		if err != nil {
			return nil, api.Invalid(field+"."+known.json, "%.40q is not a quantity", text).
				Fix(`write it as Kubernetes does: "500m", "8Gi"`)
		}
		if amount.Sign() < 0 {
			if !negative {
				return nil, api.Invalid(field+"."+known.json, "%s is less than nothing", text).Fix("send 0 or more")
			}
			amount = resource.Quantity{}
		}
		out[known.name] = amount
	}
	return out, nil
}
