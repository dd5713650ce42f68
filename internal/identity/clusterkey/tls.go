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
)

// Known returns the known keys of a cluster, the current one first; none for an unknown cluster.
type Known func(cluster string) []PublicKey

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
			_, err := TLSPeer(s, known)
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
			is, err := TLSPeer(s, known)
			if err == nil && is != peer {
				err = fmt.Errorf("cluster %s answers, not %s", is, peer)
			}
			return err
		},
	}, err
}

// TLSPeer returns the cluster at the other end of a connection. It has proven its current key.
func TLSPeer(s tls.ConnectionState, known Known) (cluster string, err error) {
	if len(s.PeerCertificates) != 1 {
		return "", errors.New("the peer shows no certificate of its own")
	}
	shown := s.PeerCertificates[0]
	public, ok := shown.PublicKey.(ed25519.PublicKey)
	if !ok || len(shown.URIs) != 1 || shown.URIs[0].Scheme != "bourse" {
		return "", errors.New("the peer's certificate is not that of a cluster")
	}
	cluster = shown.URIs[0].Opaque
	keys := known(cluster)
	if len(keys) == 0 {
		return "", fmt.Errorf("cluster %.63q is not known here", cluster)
	}
	if !public.Equal(ed25519.PublicKey(keys[0][:])) {
		return "", fmt.Errorf("cluster %.63q shows another key than the known one", cluster)
	}
	return cluster, nil
}
