package federation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// WriteKubeconfig serves the API of a member on loopback until the federation stops, and writes a kubeconfig for it.
// Only its owner can read the file. The current context is an admin's, and has the member's name. Each user has a context
// named MEMBER-USER, with the user's namespace. Tokens are drawn here.
func (f *Federation) WriteKubeconfig(path string, m *Member, users ...kubeapi.User) error {
	certificate, authority, err := selfSigned(net.ParseIP(f.host))
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(f.ctx, "tcp", net.JoinHostPort(f.host, "0"))
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.CurrentContext = m.Name
	config.Clusters[m.Name] = &clientcmdapi.Cluster{Server: "https://" + l.Addr().String(),
		CertificateAuthorityData: authority}
	served := []kubeapi.User{{Name: "admin"}}
	for i := range append(served, users...) {
		name := m.Name
		if i > 0 {
			served = append(served, users[i-1])
			name += "-" + served[i].Name
		}
		served[i].Token = rand.Text()
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: served[i].Token}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: m.Name, AuthInfo: name, Namespace: served[i].Namespace}
	}
	server := &http.Server{
		Handler: m.Cluster.API.HandlerFor(served...), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog:  log.New(io.Discard, "", 0), // clients that hang up
	}
	context.AfterFunc(f.ctx, func() { _ = server.Close() })
	f.group.Go(func() error {
		if err := server.ServeTLS(l, "", ""); err != http.ErrServerClosed {
			return err
		}
		return nil
	})
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// selfSigned makes a certificate of a server at an address, and the PEM by which clients know it.
func selfSigned(address net.IP) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{address}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
