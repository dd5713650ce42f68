package tlsid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

const (
	certPEMType = "CERTIFICATE"
	keyPEMType  = "PRIVATE KEY"
)

// NewKey makes a private key for TLS (ECDSA P-256) and returns it as PEM.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("TLS key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("TLS key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyPEMType, Bytes: der}), nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyPEMType {
		return nil, fmt.Errorf("TLS key: no PEM block of type %q", keyPEMType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("TLS key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("TLS key: is a %T, must be ECDSA P-256", parsed)
	}
	return key, nil
}

func parseCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != certPEMType {
		return nil, fmt.Errorf("no PEM block of type %q", certPEMType)
	}
	return x509.ParseCertificate(block.Bytes)
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certPEMType, Bytes: der})
}
