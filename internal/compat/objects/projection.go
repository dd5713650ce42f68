package objects

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// phases are the states in the prototypes' words. An agent that polls for instructions looks for
// Reserved, so a reservation stays Reserved while both sides are bound.
var phases = map[api.State]string{
	api.Pending: "Pending", api.Held: "Pending", api.Reserved: "Reserved", api.Active: "Reserved",
	api.Releasing: "Released", api.Released: "Released",
	api.Rejected: "Failed", api.Failed: "Failed", api.Expired: "Failed",
}

// Phase is a state in the prototypes' words.
func Phase(s api.State) string { return phases[s] }

// Words are the prototypes' words for the four resources that they know.
var Words = map[corev1.ResourceName]string{"cpu": "cpu", "memory": "memory",
	"nvidia.com/gpu": "gpu", "ephemeral-storage": "storage"}

// Projection is a Reservation object: a reservation in the prototypes' words and in those of the API.
type Projection struct {
	Spec struct {
		RequesterID        string            `json:"requesterID"`
		TargetClusterID    string            `json:"targetClusterID,omitempty"`
		RequestedResources map[string]string `json:"requestedResources"`
	}
	Status struct {
		Phase       string           `json:"phase"`
		Message     string           `json:"message,omitempty"`
		ExpiresAt   metav1.Time      `json:"expiresAt,omitzero"`
		Revision    uint64           `json:"revision"`
		Reservation *api.Reservation `json:"reservation"`
	}
}

// Draw makes the object of a reservation that a party may see.
func Draw(r api.Envelope[api.Reservation]) (p Projection) {
	p.Spec.RequesterID, p.Spec.TargetClusterID = r.Payload.Consumer, r.Payload.Provider
	p.Spec.RequestedResources = map[string]string{"cpu": "0", "memory": "0"}
	for name, word := range Words {
		if q, ok := r.Payload.Resources[name]; ok {
			p.Spec.RequestedResources[word] = q.String()
		}
	}
	p.Status.Phase, p.Status.ExpiresAt = Phase(r.Payload.State), r.Payload.Until
	p.Status.Message = cmp.Or(r.Payload.Message, string(r.Payload.Reason))
	p.Status.Revision, p.Status.Reservation = r.Revision, &r.Payload
	return p
}
