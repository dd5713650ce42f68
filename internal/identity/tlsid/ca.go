package tlsid

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
)

const (
	caKeyFile  = "ca.key"
	caCertFile = "ca.crt"
)

// Open opens the broker's own CA in dir, and creates it at the first start (ca.key, ca.crt; modes 0700 and
// 0600). hosts are the DNS names and IP addresses under which members reach the broker. The broker's own
// certificate names them; it is kept in memory and renewed automatically.
//
// The key identifies the CA: the federation's name is derived from it. A missing ca.crt is created again.
func Open(dir string, hosts []string, now func() time.Time) (*Authority, error) {
	key, err := openCAKey(dir)
	if err != nil {
		return nil, fmt.Errorf("CA in %s: %w", dir, err)
	}
	federation, err := federationOf(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("CA in %s: %w", dir, err)
	}
	ca, err := openCACert(filepath.Join(dir, caCertFile), key, federation, now())
	if err != nil {
		return nil, fmt.Errorf("CA in %s: %w", dir, err)
	}
	a := &Authority{
		federation: federation,
		ca:         ca,
		caPEM:      certPEM(ca.Raw),
		roots:      x509.NewCertPool(),
		key:        key,
		now:        now,
	}
	a.roots.AddCert(ca)
	server, err := newServerCertificate(a, hosts)
	if err != nil {
		return nil, err
	}
	a.serving = server.get
	return a, nil
}

func openCAKey(dir string) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(dir, caKeyFile)
	text, err := os.ReadFile(path)
	if err == nil {
		return parseKey(text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// A certificate without its key is a broken restore. A new key would be another federation.
	if _, err := os.Stat(filepath.Join(dir, caCertFile)); err == nil {
		return nil, fmt.Errorf("%s is there but %s is not: restore it, or remove both to found a new federation",
			caCertFile, caKeyFile)
	}
	text, err = NewKey()
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, text); err != nil {
		return nil, err
	}
	return parseKey(text)
}

func openCACert(path string, key *ecdsa.PrivateKey, federation string, now time.Time) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createCACert(path, key, federation, now)
	}
	if err != nil {
		return nil, err
	}
	ca, err := parseCert(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", caCertFile, err)
	case !key.PublicKey.Equal(ca.PublicKey):
		return nil, fmt.Errorf("%s does not belong to %s: restore the pair", caCertFile, caKeyFile)
	case now.After(ca.NotAfter):
		return nil, fmt.Errorf("%s expired on %s: remove it, it is made again from %s",
			caCertFile, ca.NotAfter.Format(time.DateOnly), caKeyFile)
	}
	return ca, nil
}

func createCACert(path string, key *ecdsa.PrivateKey, federation string, now time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "bourse federation " + federation},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		// It can only name clusters of its own federation.
		PermittedURIDomains: []string{federation},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, certPEM(der)); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// federationOf returns the name of a federation: 128 bits of its CA's public key, 26 characters, a DNS label.
func federationOf(public *ecdsa.PublicKey) (string, error) {
	spki, err := x509.MarshalPKIXPublicKey(public)
	hash := identity.FingerprintOf(spki)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16])), err
}
