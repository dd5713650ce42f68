package clusterkey

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
)

// Known returns the fingerprint of the key that a cluster has now; zero for an unknown cluster.
type Known func(cluster string) identity.Fingerprint

// certificate returns the TLS certificate that a cluster presents to peers that pinned its key. The key
// signs it itself and it contains the cluster's name. Peers compare the key; dates and CAs do not matter.
func (k *Key) certificate(cluster string) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), URIs: []*url.URL{{Scheme: "bourse", Opaque: cluster}},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ed25519.PublicKey(k.public[:]), k.private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k.private}, err
}

// ServerTLS serves known clusters over TLS 1.3. The handshake fails for a client without a known key.
func (k *Key) ServerTLS(cluster string, known Known) (*tls.Config, error) {
	certificate, err := k.certificate(cluster)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true, // each connection shows its key
		VerifyConnection: func(s tls.ConnectionState) error {
			_, _, err := TLSPeer(s, known)
			return err
		},
	}, err
}

// ClientTLS calls one cluster, which must present a known key of that cluster.
func (k *Key) ClientTLS(cluster, peer string, known Known) (*tls.Config, error) {
	certificate, err := k.certificate(cluster)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // there is no CA: the key is compared below instead
		VerifyConnection: func(s tls.ConnectionState) error {
			id, _, err := TLSPeer(s, known)
			if err == nil && id != peer {
				err = fmt.Errorf("cluster %s answers, not %s", id, peer)
			}
			return err
		},
	}, err
}

// TLSPeer returns the cluster at the other end of a connection, and its current key, which it has proven.
func TLSPeer(s tls.ConnectionState, known Known) (cluster string, key PublicKey, err error) {
	if len(s.PeerCertificates) != 1 {
		return "", key, errors.New("the peer shows no certificate of its own")
	}
	shown := s.PeerCertificates[0]
	public, ok := shown.PublicKey.(ed25519.PublicKey)
	if !ok || len(shown.URIs) != 1 || shown.URIs[0].Scheme != "bourse" {
		return "", key, errors.New("the peer's certificate is not that of a cluster")
	}
	key, cluster = PublicKey(public), shown.URIs[0].Opaque
	switch known(cluster) {
	case identity.Fingerprint{}:
		return "", key, fmt.Errorf("cluster %.63q is not known here", cluster)
	case key.Fingerprint():
		return cluster, key, nil
	}
	return "", key, &OtherKeyError{cluster, key.Fingerprint()}
}

// OtherKeyError says that a cluster, or a caller who claims to be it, has another key than the known one.
type OtherKeyError struct {
	Cluster string
	Shown   identity.Fingerprint
}

// Error implements error.
func (e *OtherKeyError) Error() string {
	return fmt.Sprintf("cluster %.63q shows another key than the known one, %s", e.Cluster, e.Shown)
}
