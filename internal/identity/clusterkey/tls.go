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

// Known returns the keys by which a cluster is known, the one that it has first; none where it is not.
type Known func(cluster string) []PublicKey

// certificate is what a cluster shows in TLS to whoever has pinned its key: its name, in a
// certificate that its key signs itself. Nobody's CA has a say, and its dates mean nothing: the key
// is what counts.
func (k *Key) certificate(cluster string) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), URIs: []*url.URL{{Scheme: "bourse", Opaque: cluster}},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ed25519.PublicKey(k.public[:]), k.private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k.private}, err
}

// ServerTLS serves clusters that are known: TLS 1.3 alone, and whoever shows no known key is not answered.
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

// ClientTLS calls one cluster, which must show the key by which it is known.
func (k *Key) ClientTLS(cluster, peer string, known Known) (*tls.Config, error) {
	certificate, err := k.certificate(cluster)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // there is no CA: the key is compared instead, below
		VerifyConnection: func(s tls.ConnectionState) error {
			is, err := TLSPeer(s, known)
			if err == nil && is != peer {
				err = fmt.Errorf("cluster %s answers, not %s", is, peer)
			}
			return err
		},
	}, err
}

// TLSPeer is the cluster at the other end of a connection, which has proven the newest key by which
// it is known.
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
