package tlsid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// serverCertificate is the certificate of a broker with its own CA. It is kept in memory. The first
// connection after half of its lifetime renews it.
type serverCertificate struct {
	authority *Authority
	dns       []string
	ips       []net.IP

	mu      sync.Mutex
	current *tls.Certificate
}

func newServerCertificate(a *Authority, hosts []string) (*serverCertificate, error) {
	if len(hosts) == 0 {
		return nil, errors.New("broker certificate: no host: name at least one under which members reach the broker")
	}
	s := &serverCertificate{authority: a}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			s.ips = append(s.ips, ip)
			continue
		}
		if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*.")); len(problems) > 0 {
			return nil, fmt.Errorf("broker certificate: host %q: neither an IP address nor a name: %s",
				host, strings.Join(problems, "; "))
		}
		s.dns = append(s.dns, host)
	}
	_, err := s.get()
	return s, err
}

func (s *serverCertificate) get() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.authority.now()
	if s.current != nil && now.Before(halfLife(s.current.Leaf)) && now.After(s.current.Leaf.NotBefore) {
		return s.current, nil
	}
	fresh, err := s.issue()
	if err != nil {
		return nil, fmt.Errorf("broker certificate: %w", err)
	}
	s.current = fresh
	return fresh, nil
}

func (s *serverCertificate) issue() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := s.authority.issue(&x509.Certificate{
		DNSNames:    s.dns,
		IPAddresses: s.ips,
		URIs:        []*url.URL{nameURI(s.authority.federation, RoleBroker, "")},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &key.PublicKey, leafLife)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The CA is included, although verifiers have their own: a joining cluster knows only its fingerprint.
	return &tls.Certificate{Certificate: [][]byte{der, s.authority.ca.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func halfLife(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) / 2)
}
