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

// Certificate is a certificate with which a consumer's Liqo acts at a provider. The provider's Liqo
// renews it after two thirds of its life. The consumer's Liqo fetches the new one with the old one.
// Once the old one has ended, the agents fetch it ([Consumer.Open]).
type Certificate struct {
	// Peer is the other cluster.
	Peer string
	// Object holds the certificate here: an Identity at the consumer, a Tenant at the provider.
	Object string
	// From and Until are the limits of its validity.
	From, Until time.Time
	// Remedy tells an admin what to do if the certificate was not renewed.
	Remedy string
}

// Overdue reports whether Liqo should have renewed the certificate: four fifths of its life are over.
// Liqo plans the renewal up to a tenth of that time late.
func (c Certificate) Overdue(now time.Time) bool {
	return now.After(c.Until.Add(-c.Until.Sub(c.From) / 5))
}

// Certificates returns the certificates of all peerings of a cluster, including those that admins
// made. It returns the readable ones even with an error, which names the others.
func Certificates(ctx context.Context, r client.Reader) (all []Certificate, err error) {
	var identities authv1beta1.IdentityList
	var tenants authv1beta1.TenantList
	if err := errors.Join(r.List(ctx, &identities), r.List(ctx, &tenants)); err != nil {
		return nil, err
	}
	add := func(params *authv1beta1.AuthParams, c Certificate) {
		if params == nil || len(params.SignedCRT) == 0 { // not issued yet, or a cloud with its own credentials
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
		if !liqo.IsOurs(&i) {
			remedy += "; if the certificate has ended and is not renewed, repeat the manual peering"
		}
		add(&i.Spec.AuthParams, Certificate{Peer: peer, Object: "Identity " + i.Namespace + "/" + i.Name, Remedy: remedy})
	}
	for _, t := range tenants.Items {
		add(t.Status.AuthParams, Certificate{
			Peer: string(t.Spec.ClusterID), Object: "Tenant " + t.Namespace + "/" + t.Name,
			Remedy: "check that liqo-controller-manager runs here",
		})
	}
	return all, err
}

func life(text []byte) (from, until time.Time, err error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return from, until, errors.New("it is not PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return from, until, err
	}
	return c.NotBefore, c.NotAfter, nil
}
