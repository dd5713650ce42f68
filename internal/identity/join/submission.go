package join

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// Kind is the kind of signed document of a [Request].
	Kind = "join"
	// RenewalKind is the kind of signed document of a [RenewalRequest].
	RenewalKind = "renewal"
	// MaxSkew is the largest allowed difference between the clocks of a cluster and its broker when it joins.
	// Leases, holds and certificates assume that the clocks agree.
	MaxSkew = 5 * time.Minute
)

// Errors of a submission, besides those of clusterkey.Verify and tlsid.CSRKey. The wrapped text says more.
var (
	ErrBadRequest = errors.New("join request is not acceptable")
	ErrClockSkew  = errors.New("the clocks of cluster and broker differ: synchronise them (NTP)")
)

// Submission is the body with which an agent joins: the token's ID and secret, and a [Request] signed by Key.
type Submission struct {
	TokenID string               `json:"tokenID"`
	Secret  string               `json:"secret"`
	Key     clusterkey.PublicKey `json:"key"`
	Request string               `json:"request"`
}

// Request is the document that the new cluster's key signs. The CSR proves that it holds its TLS key.
type Request struct {
	// Protocol is the version of the API that the agent speaks.
	Protocol int `json:"protocol"`
	// TokenID binds the signature to one token.
	TokenID string `json:"tokenID"`
	// Cluster is the Liqo cluster ID that it claims.
	Cluster string `json:"cluster"`
	// CSR is a certificate request (DER; base64 in JSON).
	CSR []byte `json:"csr"`
	// Time is the agent's clock, in UTC.
	Time time.Time `json:"time"`
}

// Applicant is a joining cluster: a name, and the two keys that it proved to hold.
type Applicant struct {
	Cluster string
	// ClusterKey is the fingerprint of the key that peers will pin.
	ClusterKey identity.Fingerprint
	// TLSKey is the fingerprint of the key in the certificate.
	TLSKey identity.Fingerprint
}

// Submit makes a submission with a token, signed by key.
func Submit(token Token, key *clusterkey.Key, request Request) (Submission, error) {
	request.TokenID = token.ID
	request.Time = request.Time.UTC()
	signed, err := key.Sign(Kind, request)
	if err != nil {
		return Submission{}, fmt.Errorf("join request: %w", err)
	}
	return Submission{TokenID: token.ID, Secret: token.Secret(), Key: key.Public(), Request: signed}, nil
}

// Open checks that the sender of the submission holds both keys, and returns its request and identity. The
// market must check the token and Secret, and admit the same applicant again, because the first answer may
// be lost. Open does not check Protocol.
func (s Submission) Open(now time.Time) (Request, Applicant, error) {
	var request Request
	if err := clusterkey.Verify(s.Request, Kind, s.Key, &request); err != nil {
		return Request{}, Applicant{}, err
	}
	if request.TokenID != s.TokenID {
		return Request{}, Applicant{}, fmt.Errorf("%w: signed for another token", ErrBadRequest)
	}
	if problems := validation.IsDNS1123Label(request.Cluster); len(problems) > 0 {
		return Request{}, Applicant{}, fmt.Errorf("%w: cluster ID %.64q: %s",
			ErrBadRequest, request.Cluster, strings.Join(problems, "; "))
	}
	if err := checkSkew(request.Time, now); err != nil {
		return Request{}, Applicant{}, err
	}
	tlsKey, err := tlsid.CSRKey(request.CSR)
	if err != nil {
		return Request{}, Applicant{}, err
	}
	return request, Applicant{Cluster: request.Cluster, ClusterKey: s.Key.Fingerprint(), TLSKey: tlsKey}, nil
}

func checkSkew(cluster, now time.Time) error {
	if skew := now.Sub(cluster); skew.Abs() > MaxSkew {
		return fmt.Errorf("%w: the cluster's is %s, the broker's %s",
			ErrClockSkew, cluster.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}
