package tlsid

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// OpenProvided opens certificates that the operator provides and renews: tls.crt, tls.key and ca.crt in dir,
// as in a Secret of cert-manager. tls.crt must contain the URI bourse://FEDERATION/broker with a name that
// the operator chooses; the certificates of members contain the same name. The next connection uses a
// changed tls.crt. If it is invalid, the broker logs that and keeps the previous one. Such a broker cannot
// issue certificates: [ErrCannotIssue].
func OpenProvided(dir string, now func() time.Time, log *slog.Logger) (*Authority, error) {
	files, caPEM, roots, err := openFiles(dir, log)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-dir: %w", err)
	}
	federation, err := federationOfBroker(files.current.Leaf)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-dir %s: tls.crt: %w", dir, err)
	}
	files.accept = func(leaf *x509.Certificate) error {
		again, err := federationOfBroker(leaf)
		if err == nil && again != federation {
			err = fmt.Errorf("%w: it is of %s", ErrIdentity, again)
		}
		return err
	}
	return &Authority{federation: federation, caPEM: caPEM, roots: roots, now: now, serving: files.get}, nil
}

// federationOfBroker reads a broker's certificate, the only place where an operator can name a federation.
func federationOfBroker(leaf *x509.Certificate) (string, error) {
	if len(leaf.URIs) != 1 {
		return "", fmt.Errorf("%w: must have one URI name, bourse://FEDERATION/broker (cert-manager: spec.uris)", ErrIdentity)
	}
	federation := leaf.URIs[0].Host
	if problems := validation.IsDNS1123Subdomain(federation); len(problems) > 0 {
		return "", fmt.Errorf("%w: federation %.64q: %s", ErrIdentity, federation, strings.Join(problems, "; "))
	}
	role, _, err := parseName(leaf, federation)
	if err == nil && role != RoleBroker {
		err = fmt.Errorf("%w: role %s, must be %s", ErrIdentity, role, RoleBroker)
	}
	return federation, err
}

// OpenClient opens a client certificate that an external program renews: tls.crt, tls.key and ca.crt in dir,
// such as a folder of [Authority.WriteOperator] or an agent's --broker-cert-path. Changes take effect as with
// [OpenProvided].
func OpenClient(dir string, now func() time.Time, log *slog.Logger) (*Client, error) {
	files, _, roots, err := openFiles(dir, log)
	if err != nil {
		return nil, err
	}
	return &Client{roots: roots, now: now, show: files.get}, nil
}

func openFiles(dir string, log *slog.Logger) (*certificateFiles, []byte, *x509.CertPool, error) {
	caPEM, err := os.ReadFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, nil, nil, err
	}
	roots, err := rootPool(caPEM)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	files := &certificateFiles{dir: dir, log: log}
	if _, err := files.get(); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return files, caPEM, roots, nil
}

// certificateFiles are tls.crt and tls.key in a directory that an external program renews.
type certificateFiles struct {
	dir string
	log *slog.Logger
	// accept, if set, may reject a changed certificate.
	accept func(leaf *x509.Certificate) error

	mu      sync.Mutex
	seen    string
	current *tls.Certificate
}

// get reads the files for each connection. That costs much less than the handshake's signatures, and cannot
// miss a change as comparing file times could.
func (f *certificateFiles) get() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cert, certErr := os.ReadFile(filepath.Join(f.dir, "tls.crt"))
	key, keyErr := os.ReadFile(filepath.Join(f.dir, "tls.key"))
	if f.current != nil && f.seen == string(cert)+string(key) {
		return f.current, nil
	}
	fresh, err := f.load(cert, key, errors.Join(certErr, keyErr))
	switch {
	case err == nil:
		f.current = fresh
	case f.current == nil:
		return nil, err
	default: // perhaps half of a renewal: the other half is another change
		f.log.Warn("changed certificate is unusable, the one before stays in use", "dir", f.dir, "error", err)
	}
	f.seen = string(cert) + string(key)
	return f.current, nil
}

func (f *certificateFiles) load(certPEM, keyPEM []byte, readErr error) (*tls.Certificate, error) {
	if readErr != nil {
		return nil, readErr
	}
	fresh, err := tls.X509KeyPair(certPEM, keyPEM)
	if err == nil && f.accept != nil {
		err = f.accept(fresh.Leaf)
	}
	return &fresh, err
}

func rootPool(caPEM []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	return roots, nil
}
