package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// membership is who this cluster is to its broker and to its peers.
type membership struct {
	cluster string
	key     *clusterkey.Key
	tls     *tlsid.Client
	http    *http.Client
	broker  *client.Client
	url     string
	store   store.Store
	log     *slog.Logger
}

// enter loads the cluster's identity, or joins with the token to get one. A token is not
// looked at once there is an identity.
func enter(ctx context.Context, cluster, token string, s store.Store, log *slog.Logger) (*membership, error) {
	id, err := s.Load(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if len(id.CertPEM) == 0 {
		if token == "" {
			return nil, api.Errorf(api.CodeUnauthenticated, "this cluster has not joined a broker yet").
				Fix("ask the broker's operator for a token (bourse broker token create) and start the agent with --join TOKEN")
		}
		if err := joinWith(ctx, cluster, token, &id, s, log); err != nil {
			return nil, err
		}
	}
	m := &membership{cluster: cluster, url: id.BrokerURL, store: s, log: log}
	if m.key, err = clusterkey.ParsePEM(id.ClusterKeyPEM); err != nil {
		return nil, err
	}
	if m.tls, err = tlsid.NewClient(id.TLSKeyPEM, id.CertPEM, id.CAPEM, time.Now); err != nil {
		return nil, err
	}
	m.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig: m.tls.Config(), MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}}
	m.broker = client.New(id.BrokerURL, m.http)
	return m, nil
}

// joinWith makes the cluster's keys, keeps them, and then asks the broker, as often as it takes: the same
// keys may ask again with a spent token when an answer was lost.
func joinWith(ctx context.Context, cluster, text string, id *store.Identity, s store.Store, log *slog.Logger) error {
	token, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	if err := makeKeys(ctx, token.BrokerURL, id, s); err != nil {
		return err
	}
	key, err := clusterkey.ParsePEM(id.ClusterKeyPEM)
	if err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(id.TLSKeyPEM)
	if err != nil {
		return err
	}
	broker, err := url.Parse(token.BrokerURL)
	if err != nil {
		return err
	}
	c := client.New(token.BrokerURL, &http.Client{Transport: &http.Transport{
		TLSClientConfig: tlsid.JoinConfig(broker.Hostname(), token.Pin, time.Now), DisableKeepAlives: true,
	}})
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		submission, err := join.Submit(token, key, join.Request{Protocol: api.Protocol, Cluster: cluster, CSR: csr, Time: time.Now().UTC()})
		if err != nil {
			return err
		}
		answer, err := c.Join(ctx, submission)
		if err == nil {
			id.CertPEM, id.CAPEM = []byte(answer.Certificate), []byte(answer.CA)
			log.Info("joined", "broker", token.BrokerURL, "cluster", cluster, "fingerprint", key.Public().Fingerprint(), "state", answer.State)
			return s.Save(ctx, id)
		}
		if code := api.CodeOf(err); code != api.CodeUnavailable && code != api.CodeTooManyRequests {
			return err
		}
		log.Warn("the broker cannot be joined now", "error", err, "again in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func makeKeys(ctx context.Context, broker string, id *store.Identity, s store.Store) error {
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
	return s.Save(ctx, id)
}

// renew renews the certificate at half of its life, until ctx ends.
func (m *membership) renew(ctx context.Context) error {
	for {
		certificate, err := m.tls.Certificate()
		if err != nil {
			return err
		}
		wait := max(time.Until(tlsid.RenewAt(certificate, m.cluster)), time.Minute)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if err := m.renewOnce(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("the certificate was not renewed, will try again", "error", err, "expires", certificate.NotAfter)
		}
	}
}

func (m *membership) renewOnce(ctx context.Context) error {
	id, err := m.store.Load(ctx)
	if err != nil {
		return err
	}
	if id.TLSKeyPEM, err = tlsid.NewKey(); err != nil {
		return err
	}
	csr, err := tlsid.NewCSR(id.TLSKeyPEM)
	if err != nil {
		return err
	}
	answer, err := m.broker.Renew(ctx, csr)
	if err != nil {
		return err
	}
	id.CertPEM = []byte(answer.Certificate)
	if err := m.store.Save(ctx, &id); err != nil {
		return err
	}
	if err := m.tls.Replace(id.TLSKeyPEM, id.CertPEM); err != nil {
		return err
	}
	m.http.CloseIdleConnections() // so that the next call shows the new one
	return nil
}
