package broker_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// manifest is what there is to look at in those of config/certmanager.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		SecretName string
		CommonName string
		IsCA       bool
		URIs       []string
		Usages     []string
		CA         struct{ SecretName string }
		Request    string
	}
	Rules []struct{ APIGroups, Resources, Verbs []string }
}

func manifests(t *testing.T, files ...string) map[string]manifest {
	t.Helper()
	out := map[string]manifest{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("../../config", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var m manifest
			if err := yaml.Unmarshal([]byte(document), &m); err != nil || m.Kind == "" {
				t.Fatalf("%s: %v", file, err)
			}
			out[m.Kind+" "+m.Metadata.Name] = m
		}
	}
	return out
}

// What config/certmanager makes: no CA's key where a member is, and certificates that the broker
// takes for what they are to be.
func TestCertManager(t *testing.T) {
	all := manifests(t, "certmanager/ca.yaml", "certmanager/broker-certificate.yaml",
		"certmanager/member/certificate.yaml", "certmanager/member/request.yaml")
	served, agent, request := all["Certificate broker-server"].Spec, all["Certificate agent-client-cert"].Spec, all["CertificateRequest "].Spec
	if ca := all["Certificate liqo-broker-ca"]; !ca.Spec.IsCA || ca.Metadata.Namespace != "cert-manager" ||
		all["ClusterIssuer liqo-broker-ca-issuer"].Spec.CA.SecretName != ca.Spec.SecretName {
		t.Errorf("%+v", ca)
	}
	for name, m := range all {
		if m.Kind == "Secret" || m.Spec.IsCA != (name == "Certificate liqo-broker-ca") {
			t.Errorf("%s: %+v", name, m.Spec)
		}
	}
	if only := []string{"client auth"}; !slices.Equal(agent.Usages, only) ||
		!slices.Equal(request.Usages, only) || request.Request == "" {
		t.Errorf("%+v\n%+v", agent, request)
	}
	if role := manifests(t, "catalog/rights.yaml")["ClusterRole bourse-broker-catalog"]; len(role.Rules) != 1 ||
		!slices.Equal(role.Rules[0].Verbs, []string{"list"}) ||
		!slices.Equal(role.Rules[0].Resources, []string{"foreignclusters"}) {
		t.Errorf("%+v", role)
	}

	// The same certificates, by a CA of our own, in a broker that runs.
	ca, dir, certs := servertest.NewSubjectCA(t), t.TempDir(), t.TempDir()
	certificate := ca.Issue(t, "", func(c *x509.Certificate) {
		u, _ := url.Parse(served.URIs[0])
		c.URIs, c.IPAddresses, c.ExtKeyUsage = []*url.URL{u}, []net.IP{net.IPv4(127,
			0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca.crt": ca.PEM(), "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(certs, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	config.Certificates = []tls.Certificate{ca.Issue(t, agent.CommonName)}
	o := broker.Options{Dir: dir, TLSCertDir: certs, Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler), Prototypes: prototypes.Options{Agents: true}}
	status, said := run(t, o, config, "approve")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, said)
	}
	// Started again it signs with the same key. Without it, it does not start; with another one it
	// does not sign. Both say what to do.
	if status, said = run(t, o, config, ""); status != http.StatusOK {
		t.Errorf("started again: %d %s", status, said)
	}
	secret := filepath.Join(dir, "ca", "legacy.key")
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if err := broker.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "copy the folder ca") {
		t.Errorf("without its secret: %v", err)
	}
	if err := os.WriteFile(secret, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, said = run(t, o, config, ""); status != http.StatusConflict ||
		!strings.Contains(said, "copy the folder ca") {
		t.Errorf("with another secret: %d %s", status, said)
	}
}

// run runs a broker for as long as an agent advertises, twice, with an operator's step in between.
func run(t *testing.T, o broker.Options, config *tls.Config, step string) (status int, said string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(url string) { ready <- url }
	go func() { ended <- broker.Run(ctx, o) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var at string
	select {
	case at = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	amounts := `{"cpu":"4","memory":"8Gi"}`
	for i := range 2 {
		name := fmt.Sprint("n", time.Now().UnixNano()) // one that differs makes a new card, which takes a signature
		body := `{"clusterID":"cluster-1","clusterName":"` + name + `","resources":{"capacity":` + amounts + `,"allocatable":` + amounts + `,"allocated":{"cpu":"0","memory":"0"},"available":` + amounts + `}}`
		answer, err := (&http.Client{Transport: transport}).Post(at+"/api/v1/advertisements",
			"application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		status, said = answer.StatusCode, string(text)
		if step != "" && i == 0 {
			if _, err := client.New("unix://"+filepath.Join(o.Dir, "broker.sock"),
				nil).SetMember(ctx, "cluster-1", step); err != nil {
				t.Fatal(err)
			}
		}
	}
	return status, said
}
