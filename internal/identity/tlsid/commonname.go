package tlsid

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// AdmitCommonNames lets [Authority.Peer] accept, besides its own names, the common name of a client
// certificate without a URI: the cluster ID, as the agents of the prototypes have it. Such a client has
// [RoleLegacy] only. caPEM are further CAs. Their certificates are accepted in this way only, also with a
// URI. It may be empty. Call it before serving.
func (a *Authority) AdmitCommonNames(caPEM []byte) error {
	if a.clients == nil {
		a.clients = a.roots.Clone()
	}
	if len(bytes.TrimSpace(caPEM)) > 0 && !a.clients.AppendCertsFromPEM(caPEM) {
		return errors.New("it holds no certificate")
	}
	a.commonNames = true
	return nil
}

// ErrNoCommonNames means that nobody would believe a certificate with a common name alone.
var ErrNoCommonNames = errors.New("this broker serves no agents of the prototypes (--broker-interface http)")

// SignsCommonNames reports why [Authority.SignCommonName] issues no certificates, or nil. Errors:
// [ErrCannotIssue], [ErrNoCommonNames].
func (a *Authority) SignsCommonNames() error {
	switch {
	case a.key == nil:
		return ErrCannotIssue
	case !a.commonNames:
		return ErrNoCommonNames
	}
	return nil
}

// SignCommonName issues the certificate (PEM, followed by that of the CA) of a client with this key. Its
// common name is the cluster ID, and it has no other name. So it is worth nothing once the cluster has
// joined by itself. Errors: as SignsCommonNames, and a bad cluster ID.
func (a *Authority) SignCommonName(key crypto.PublicKey, clusterID string,
	life time.Duration) (chain []byte, expires time.Time, err error) {
	if err := a.SignsCommonNames(); err != nil {
		return nil, expires, err
	}
	if err := checkLabel("cluster ID", clusterID); err != nil {
		return nil, expires, err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: clusterID},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := a.issue(template, key, life)
	if err != nil {
		return nil, expires, err
	}
	return append(certPEM(der), a.caPEM...), template.NotAfter, nil
}

// issued says whether a chain ends at the federation's own CA.
func (a *Authority) issued(chains [][]*x509.Certificate) bool {
	for rest := a.caPEM; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return false
		}
		for _, chain := range chains {
			if bytes.Equal(chain[len(chain)-1].Raw, block.Bytes) {
				return true
			}
		}
	}
}

// parseCommonName reads the common name of a client certificate whose chain was verified. A
// server's certificate is none, though the prototypes' broker had one for both. Errors:
// [ErrIdentity], [ErrExpired].
func parseCommonName(cert *x509.Certificate, now time.Time) (Peer, error) {
	if cert.IsCA || !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) ||
		slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		return Peer{}, fmt.Errorf("%w: not a certificate for clients alone", ErrIdentity)
	}
	name := cert.Subject.CommonName
	if err := checkLabel("common name", name); err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return Peer{}, fmt.Errorf("%w: %s, from %s to %s", ErrExpired,
			name, cert.NotBefore.Format(time.RFC3339), cert.NotAfter.Format(time.RFC3339))
	}
	return Peer{Role: RoleLegacy, Name: name, Key: keyOf(cert)}, nil
}
