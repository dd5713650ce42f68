package enrollment

import (
	"context"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// refusalNotifier passes calls on, and notes when one was refused because of the certificate.
type refusalNotifier struct {
	http.RoundTripper
	refused chan<- struct{}
}

// RoundTrip implements http.RoundTripper.
func (n refusalNotifier) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.RoundTripper.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		select {
		case n.refused <- struct{}{}:
		default:
		}
	}
	return answer, err
}

// CloseIdleConnections implements the interface that http.Client looks for.
func (n refusalNotifier) CloseIdleConnections() {
	if c, ok := n.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// renew renews the certificate until ctx ends: at half of its life, when the broker refuses it, and at once
// if the cluster has rotated its key since the certificate was issued. It does not renew a certificate that
// the admin provided.
func (m *Membership) renew(ctx context.Context) error {
	if m.NoBroker || m.CertDir != "" || m.Objects != nil {
		return nil
	}
	rotated := m.lastRotation() // of one renewal: the clocks of cluster and broker may differ
	for {
		certificate, err := m.tls.Certificate()
		if err != nil {
			return err
		}
		wait := max(tlsid.RenewAt(certificate, m.Cluster).Sub(m.Clock.Now()), time.Minute)
		if rotated.After(tlsid.IssuedAt(certificate)) { // the renewal ends the certificates that the former key got
			wait = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.Clock.After(wait):
		case <-m.refused:
			m.Log.Warn("the broker refused the certificate: renewing it")
		}
		if err := m.renewOnce(ctx); err != nil && ctx.Err() == nil {
			m.Log.Warn("the certificate was not renewed, will try again", "error", err, "expires", certificate.NotAfter)
		}
		if next, err := m.tls.Certificate(); err == nil && !next.Equal(certificate) {
			rotated = time.Time{}
		}
		select {
		case <-ctx.Done():
			return nil
		// clusters that were refused together do not return together
		case <-m.Clock.After(market.RenewEvery + mathrand.N(market.RenewEvery)):
		}
	}
}

// renewOnce renews the certificate by the cluster key. The call itself shows no certificate: the one that
// the cluster has may have ended.
func (m *Membership) renewOnce(ctx context.Context) error {
	if err := m.calls.CheckOn(); err != nil {
		return err
	}
	federation, err := m.tls.Federation()
	if err != nil {
		return err
	}
	key, err := tlsid.NewKey()
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(key)
	if err != nil {
		return err
	}
	renewal, err := join.Renew(m.key, m.rotations, join.RenewalRequest{Protocol: api.Protocol,
		Federation: federation, Cluster: m.Cluster, CSR: csr, Time: m.Clock.Now()})
	if err != nil {
		return err
	}
	answer, err := client.New(m.url, &http.Client{Transport: &http.Transport{
		Proxy: m.Proxy, TLSClientConfig: m.tls.AnonymousConfig(), DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second,
	}}).Renew(ctx, renewal)
	if err != nil {
		return err
	}
	certificate := []byte(answer.Certificate)
	// before it is stored: the former one ends even if the store fails
	if err := m.tls.Replace(key, certificate); err != nil {
		return err
	}
	m.http.CloseIdleConnections()                                             // so that the next call shows the new one
	m.Clock.AfterFunc(market.CertificateGrace/2, m.http.CloseIdleConnections) // those of calls that were under way
	return m.changeStored(ctx, func(id *store.Identity) error {
		id.TLSKeyPEM, id.CertPEM = key, certificate
		return nil
	})
}

// lastRotation returns when the cluster's key succeeded another one, by this cluster's clock. Zero: never.
func (m *Membership) lastRotation() time.Time {
	if len(m.rotations) == 0 {
		return time.Time{}
	}
	return trust.Rotated(m.rotations[len(m.rotations)-1])
}
