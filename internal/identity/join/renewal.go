package join

import (
	"fmt"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// Renewal is the body with which an agent renews its certificate: a [RenewalRequest] signed by the cluster
// key. The current certificate does not matter: a stolen one cannot renew itself, and an expired one can be
// renewed.
type Renewal struct {
	Cluster string               `json:"cluster" maxLength:"63"`
	Key     clusterkey.PublicKey `json:"key"`
	// Rotations lead from the key that the broker knows to Key.
	Rotations []string `json:"rotations,omitempty" maxItems:"16"`
	Request   string   `json:"request" maxLength:"32768"`
}

// RenewalRequest is the document that the cluster key signs.
type RenewalRequest struct {
	Protocol int `json:"protocol"`
	// Federation and Cluster bind the signature to one member of one broker.
	Federation string `json:"federation"`
	Cluster    string `json:"cluster"`
	// CSR is a certificate request (DER; base64 in JSON).
	CSR []byte `json:"csr"`
	// Time is the agent's clock, in UTC.
	Time time.Time `json:"time"`
}

// Renew makes a renewal signed by key.
func Renew(key *clusterkey.Key, rotations []string, request RenewalRequest) (Renewal, error) {
	request.Time = request.Time.UTC()
	signed, err := key.Sign(RenewalKind, request)
	if err != nil {
		return Renewal{}, fmt.Errorf("renewal: %w", err)
	}
	return Renewal{Cluster: request.Cluster, Key: key.Public(), Rotations: rotations, Request: signed}, nil
}

// Open checks that the sender holds both keys, and that the request is for this federation and current. It
// returns the request and the fingerprint of the TLS key. The market must check that the cluster has the
// cluster key.
func (r Renewal) Open(federation string, now time.Time) (RenewalRequest, identity.Fingerprint, error) {
	var request RenewalRequest
	if err := clusterkey.Verify(r.Request, RenewalKind, r.Key, &request); err != nil {
		return RenewalRequest{}, identity.Fingerprint{}, err
	}
	if request.Cluster != r.Cluster || request.Federation != federation {
		return RenewalRequest{}, identity.Fingerprint{}, fmt.Errorf("%w: signed for cluster %.64q of federation %.64q",
			ErrBadRequest, request.Cluster, request.Federation)
	}
	if err := checkSkew(request.Time, now); err != nil {
		return RenewalRequest{}, identity.Fingerprint{}, err
	}
	key, err := tlsid.CSRKey(request.CSR)
	return request, key, err
}
