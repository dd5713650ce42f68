package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// SubjectCA is a CA that names clusters by the subjects of their certificates, as the prototypes' do.
type SubjectCA struct {
	Cert *x509.Certificate
	Key  any
}

// NewSubjectCA makes one.
func NewSubjectCA(t testing.TB) SubjectCA {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "liqo-broker-ca"},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return SubjectCA{must(x509.ParseCertificate(der))(t), key}
}

// PEM is its certificate.
func (c SubjectCA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Cert.Raw})
}

// Issue signs the certificate of an agent; change makes it another.
func (c SubjectCA) Issue(t testing.TB, name string, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:   pkix.Name{CommonName: name, Organization: []string{"LiqoResourceBroker"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, f := range change {
		f(template)
	}
	der := must(x509.CreateCertificate(rand.Reader, template, c.Cert, &key.PublicKey, c.Key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
