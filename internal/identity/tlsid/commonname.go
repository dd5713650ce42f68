package tlsid

import (
	"bytes"
	"crypto/x509"
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
