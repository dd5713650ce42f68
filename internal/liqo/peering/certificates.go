package peering

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// Certificate is one by which a consumer's Liqo acts at a provider. The provider's Liqo signs it anew when two thirds of its life are over,
// and the consumer's fetches that by the one it has, or after its end the agents do ([Consumer.Open]).
type Certificate struct {
	// Peer is the other cluster.
	Peer string
	// Object is what has it here: an Identity at the consumer, a Tenant at the provider.
	Object string
	// From and Until are when it begins and ends.
	From, Until time.Time
	// Remedy is what to do where it was not renewed.
	Remedy string
}

// Overdue says whether it should have been signed anew by now, with room for how Liqo plans that: by a tenth of the time too late.
func (c Certificate) Overdue(now time.Time) bool {
	return now.After(c.Until.Add(-c.Until.Sub(c.From) / 5))
}

// Certificates are those of the peerings of a cluster, those made by hand among them. What cannot be read is in the error, beside all else.
func Certificates(ctx context.Context, r client.Reader) (all []Certificate, err error) {
	var identities authv1beta1.IdentityList
	var tenants authv1beta1.TenantList
	if err := errors.Join(r.List(ctx, &identities), r.List(ctx, &tenants)); err != nil {
		return nil, err
	}
	add := func(params *authv1beta1.AuthParams, c Certificate) {
		if params == nil || len(params.SignedCRT) == 0 { // not yet, or of a cloud that knows consumers otherwise
			return
		}
		from, until, cannot := life(params.SignedCRT)
		if cannot != nil {
			err = errors.Join(err, fmt.Errorf("the certificate of %s: %w", c.Object, cannot))
			return
		}
		c.From, c.Until = from, until
		all = append(all, c)
	}
	for _, i := range identities.Items {
		peer := string(i.Spec.ClusterID)
		remedy := "check that liqo-controller-manager runs in " + peer
		if !liqo.Ours(&i) {
			remedy += "; if the certificate ended and stays so, peer by hand again"
		}
		add(&i.Spec.AuthParams, Certificate{Peer: peer, Object: "Identity " + i.Namespace + "/" + i.Name, Remedy: remedy})
	}
	for _, t := range tenants.Items {
		add(t.Status.AuthParams, Certificate{Peer: string(t.Spec.ClusterID), Object: "Tenant " + t.Namespace + "/" + t.Name, Remedy: "check that liqo-controller-manager runs here"})
	}
	return all, err
}

func life(text []byte) (from, until time.Time, err error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return from, until, errors.New("it is no PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return from, until, err
	}
	return c.NotBefore, c.NotAfter, nil
}
