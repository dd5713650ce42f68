package broker_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Where another CA issues the certificates, one is good in the membership in which it was issued:
// renewed ones are, and after a removal only those that were issued since.
func TestCertificatesOfAnotherCA(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ca, certs := servertest.NewSubjectCA(t), t.TempDir()
	named := func(path string, issued time.Time) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.URIs, c.NotBefore = []*url.URL{{Scheme: "bourse", Host: "fed.example", Path: path}}, issued
		}
	}
	own := ca.Issue(t, "", named("/broker", time.Now().Add(-time.Hour)), func(c *x509.Certificate) {
		c.IPAddresses, c.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca.crt": ca.PEM(), "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(certs, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ready, ended := make(chan string, 1), make(chan error, 1)
	o := broker.Options{Dir: t.TempDir(), TLSCertDir: certs, Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler), Ready: func(url string) { ready <- url }}
	go func() { ended <- broker.Run(ctx, o) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	at := <-ready
	operator := client.New("unix://"+filepath.Join(o.Dir, "broker.sock"), nil)
	as := func(path string, issued time.Time) *client.Client {
		roots := x509.NewCertPool()
		roots.AddCert(ca.Cert)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
			Certificates: []tls.Certificate{ca.Issue(t, "", named(path, issued))}}}
		t.Cleanup(transport.CloseIdleConnections)
		return client.New(at, &http.Client{Transport: transport})
	}
	set := func(step string) {
		t.Helper()
		if _, err := operator.SetMember(ctx, "rome", step); err != nil {
			t.Fatal(err)
		}
	}
	rome := transporttest.NewParty(t, "rome")
	enters := func(c *client.Client) {
		t.Helper()
		if err := c.PutCard(ctx, "rome", rome.Card(api.Properties{})); api.CodeOf(err) != api.CodeNotMember {
			t.Fatalf("its first card: %v", err)
		}
		set("approve")
		if _, err := c.Clusters(ctx); err != nil {
			t.Fatalf("approved: %v", err)
		}
	}
	first := as("/cluster/rome", time.Now().Add(-time.Minute))
	enters(first)
	renewed := as("/cluster/rome", time.Now())
	for name, c := range map[string]*client.Client{"first": first, "renewed": renewed} {
		if _, err := c.Clusters(ctx); err != nil {
			t.Errorf("the %s certificate: %v", name, err)
		}
	}
	ops := as("/operator/ada", time.Now())
	if _, err := ops.Members(ctx); err != nil {
		t.Errorf("an operator: %v", err)
	}

	set("remove")
	ends, err := operator.CreateOperator(ctx, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*client.Client{"first": first, "renewed": renewed} {
		if err := c.PutCard(ctx, "rome", rome.Card(api.Properties{})); api.CodeOf(err) != api.CodeSuspended {
			t.Errorf("after the removal the %s certificate asks to be admitted: %v", name, err)
		}
	}
	time.Sleep(time.Until(ends.From.Time)) // until the second after, in which this CA issues the next ones
	next := as("/cluster/rome", ends.From.Time)
	enters(next)
	for name, c := range map[string]*client.Client{"first": first, "renewed": renewed} {
		if _, err := c.Clusters(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
			t.Errorf("after it was admitted again the %s certificate: %v", name, err)
		}
	}
	if _, err := ops.Members(ctx); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("an operator whose certificate was ended: %v", err)
	}
	if _, err := as("/operator/ada", ends.From.Time).Members(ctx); err != nil {
		t.Errorf("an operator with the next certificate: %v", err)
	}
}
