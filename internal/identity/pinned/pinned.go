// Package pinned lets two parties speak TLS 1.3 that know each other by the hash of a public key alone.
//
// Each party makes a key for some minutes ([NewKey]) and tells the other one its [Key.Hash] by a way that both trust,
// such as an object of a Kubernetes API server. No CA, name or date of a certificate matters. The key may be of any
// kind that TLS 1.3 has, so that a client can also be made of openssl and curl.
package pinned

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Key is a key pair with a certificate that it signs itself.
type Key struct {
	hash        string
	certificate tls.Certificate
}

// NewKey makes a key of P-256, which all clients of TLS 1.3 know.
func NewKey() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return certify(private)
}

// certify makes the certificate of a private key.
func certify(private crypto.Signer) (*Key, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Key{Hash(leaf), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}}, nil
}

// Hash returns the SHA-256 of a certificate's public key, a SubjectPublicKeyInfo in DER (RFC 5280, 4.1), in 64
// lower-case hexadecimal digits.
func Hash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Hash returns what the other party pins: see [Hash].
func (k *Key) Hash() string { return k.hash }

// pemType is the type of the PEM block that keeps a private key (PKCS #8).
const pemType = "PRIVATE KEY"

// PEM returns the private key, so that [ParsePEM] makes the same key of it.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.certificate.PrivateKey)
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), err
}

// ParsePEM reads the output of [Key.PEM].
func ParsePEM(text []byte) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("no PEM block of type %q", pemType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", parsed)
	}
	return certify(private)
}

// ServerTLS serves the clients whose hash known accepts. The handshake fails for all others.
func (k *Key) ServerTLS(known func(hash string) bool) *tls.Config {
	return k.config(known)
}

// ClientTLS calls the server with a hash, and no other.
func (k *Key) ClientTLS(server string) *tls.Config {
	c := k.config(func(hash string) bool { return hash == server })
	c.InsecureSkipVerify = true // there is no CA: the hash is compared instead
	return c
}

func (k *Key) config(known func(hash string) bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{k.certificate}, ClientAuth: tls.RequireAnyClientCert,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true, // each connection shows its key
		VerifyConnection: func(s tls.ConnectionState) error {
			hash, err := Peer(s)
			if err == nil && !known(hash) {
				err = fmt.Errorf("the key %s is not known here", hash)
			}
			return err
		},
	}
}

// Peer returns the hash of the key that the other party has proven to hold.
func Peer(s tls.ConnectionState) (hash string, err error) {
	if len(s.PeerCertificates) != 1 {
		return "", errors.New("the peer shows no certificate of its own")
	}
	return Hash(s.PeerCertificates[0]), nil
}
