package tlsid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
)

// SignOperator issues the certificate (PEM) of an operator for the key in the request. It is valid for a year
// from issued, which may be slightly in the future. Errors: [ErrBadCSR], [ErrCannotIssue], a bad name.
func (a *Authority) SignOperator(csr []byte, name string, issued time.Time) ([]byte, error) {
	if err := checkLabel("operator", name); err != nil {
		return nil, err
	}
	request, err := parseCSR(csr)
	if err != nil {
		return nil, err
	}
	template := a.clientTemplate(RoleOperator, name)
	template.NotBefore = issued.Add(-backdate)
	der, err := a.issue(template, request.PublicKey, operatorLife)
	if err != nil {
		return nil, err
	}
	return certPEM(der), nil
}

// WriteOperator writes a certificate with the operator role, valid for a year, into dir: tls.crt, tls.key,
// ca.crt. It does nothing if tls.crt exists: to renew it, move the folder away and restart the broker.
// Errors: [ErrCannotIssue], a bad name, an error of the file system.
func (a *Authority) WriteOperator(dir, name string) error {
	certFile := filepath.Join(dir, "tls.crt")
	if _, err := os.Stat(certFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keyPEM, err := NewKey()
	if err != nil {
		return err
	}
	csr, err := NewCSR(keyPEM)
	if err != nil {
		return err
	}
	cert, err := a.SignOperator(csr, name, a.now())
	if err != nil {
		return fmt.Errorf("operator %s: %w", name, err)
	}
	// The certificate comes last: its presence means that the other files are complete.
	for _, file := range []struct {
		path string
		data []byte
	}{
		{filepath.Join(dir, "tls.key"), keyPEM},
		{filepath.Join(dir, caCertFile), a.caPEM},
		{certFile, cert},
	} {
		if err := atomicfile.Write(file.path, file.data); err != nil {
			return err
		}
	}
	return nil
}
