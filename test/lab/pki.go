package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// credentials are what a cluster is reached with: its CA certificate (PEM), and the token of system:masters.
type credentials struct {
	ca    []byte
	token string
}

// writeCredentials makes a cluster's keys in dir: ca.crt, server.crt and server.key (for
// 127.0.0.1), sa.key (signs the tokens of ServiceAccounts), tokens.csv, and ca.key, with which the
// controller manager signs certificates.
func writeCredentials(dir string) (credentials, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	accountsKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	ca := certificate(1, "lab CA")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return credentials{}, fmt.Errorf("CA certificate: %w", err)
	}
	server := certificate(2, "kube-apiserver")
	server.KeyUsage, server.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	if err != nil {
		return credentials{}, fmt.Errorf("serving certificate: %w", err)
	}
	c := credentials{ca: pemOf("CERTIFICATE", caDER), token: rand.Text()}
	for name, content := range map[string][]byte{
		"ca.crt":     c.ca,
		"server.crt": pemOf("CERTIFICATE", serverDER),
		"ca.key":     pemOfKey(caKey),
		"server.key": pemOfKey(serverKey),
		"sa.key":     pemOfKey(accountsKey),
		"tokens.csv": []byte(c.token + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return credentials{}, err
		}
	}
	return c, nil
}

func certificate(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
	}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pemOfKey(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key) // not PKCS#8: kube-apiserver would not find the public half in it
	if err != nil {
		panic(err) // a P-256 key always has this form
	}
	return pemOf("EC PRIVATE KEY", der)
}
