package enrollment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// useProvided loads the certificate that the admin put into a folder, and makes the cluster's key.
func (m *Membership) useProvided(ctx context.Context, id *store.Identity) (err error) {
	if m.BrokerURL == "" {
		return api.Invalid("--broker-url", "is empty").
			Fix("with --broker-cert-path, also give the URL of the broker: --broker-url https://HOST:PORT")
	}
	if m.tls, err = tlsid.OpenClient(m.CertDir, m.Clock.Now, m.Log); err != nil {
		return api.Invalid("--broker-cert-path", "%s", err).
			Fix("name the folder with tls.crt, tls.key and ca.crt of this cluster")
	}
	return m.ensureKeys(ctx, m.BrokerURL, id)
}

// ensureKeys makes the cluster's keys where there is nothing to join.
func (m *Membership) ensureKeys(ctx context.Context, broker string, id *store.Identity) error {
	if len(id.ClusterKeyPEM) > 0 {
		return nil
	}
	return m.makeKeys(ctx, broker, id)
}

// makeKeys makes the keys that are missing, and stores them.
func (m *Membership) makeKeys(ctx context.Context, broker string, id *store.Identity) error {
	if len(id.ClusterKeyPEM) > 0 && len(id.TLSKeyPEM) > 0 {
		return nil
	}
	id.BrokerURL = broker
	if len(id.ClusterKeyPEM) == 0 {
		key, err := clusterkey.New(rand.Reader)
		if err != nil {
			return err
		}
		if id.ClusterKeyPEM, err = key.PEM(); err != nil {
			return err
		}
	}
	if len(id.TLSKeyPEM) == 0 {
		var err error
		if id.TLSKeyPEM, err = tlsid.NewKey(); err != nil {
			return err
		}
	}
	return m.Store.Save(ctx, id)
}

// join asks the broker of a token once to let the cluster in, and stores what it answers. id has the cluster's
// keys: after a lost answer the same keys may ask again with a spent token.
func (m *Membership) join(ctx context.Context, id *store.Identity, token join.Token) error {
	broker := cmp.Or(m.BrokerURL, token.BrokerURL)
	key, err := clusterkey.ParsePEM(id.ClusterKeyPEM)
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(id.TLSKeyPEM)
	if err != nil {
		return err
	}
	address, err := url.Parse(broker)
	if err != nil {
		return err
	}
	submission, err := join.Submit(token, key, join.Request{Protocol: api.Protocol,
		Cluster: m.Cluster, CSR: csr, Time: m.Clock.Now().UTC()})
	if err != nil {
		return err
	}
	answer, err := client.New(broker, &http.Client{Transport: &http.Transport{
		Proxy: m.Proxy, TLSClientConfig: tlsid.JoinConfig(address.Hostname(), token.Pin, m.Clock.Now), DisableKeepAlives: true,
	}}).Join(ctx, submission)
	if err != nil {
		return err
	}
	m.Log.Info("joined", "broker", broker, "fingerprint", key.Public().Fingerprint(), "state", answer.State)
	return m.changeStored(ctx, func(stored *store.Identity) error { // it may have a newer key, and brokers, since id was read
		if !bytes.Equal(stored.TLSKeyPEM, id.TLSKeyPEM) {
			return fmt.Errorf("%w: its key is not the one that joined", store.ErrConflict)
		}
		stored.CertPEM, stored.CAPEM, stored.BrokerURL = []byte(answer.Certificate), []byte(answer.CA), broker
		*id = *stored
		return nil
	})
}
