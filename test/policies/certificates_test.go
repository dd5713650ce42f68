package policies

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// certificateRequest asks a signer for a certificate, as Liqo's virtual kubelet does or as a client would.
func certificateRequest(t *testing.T, signer string, usage certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "system:node:b-general-x", Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage}}}
}

// Liqo approves all that accounts in tenant namespaces ask for. They ask for certificates for serving only, with the
// rights that Liqo gives a virtual kubelet. Nobody else is concerned.
func TestCertificatesOfTenantNamespaces(t *testing.T) {
	w := start(t)
	account := func(namespace string) kube.Client {
		return w.mustAs(t, account{namespace, rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":vk",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}})
	}
	if err := w.bind(t.Context(), "", "liqo-virtual-kubelet-local", rbacv1.GroupKind, "system:serviceaccounts"); err != nil {
		t.Fatal(err)
	}
	const client, server = certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth
	kubelet := account(tenant)
	w.eventually(t, "a virtual kubelet asks for the certificate by which it serves", func() error {
		return kubelet.Create(t.Context(), certificateRequest(t, certificatesv1.KubeletServingSignerName, server), kube.DryRunAll)
	})
	w.eventually(t, "the policy is in force", func() error {
		err := kubelet.Create(t.Context(), certificateRequest(t, certificatesv1.KubeAPIServerClientSignerName, client), kube.DryRunAll)
		if !isRefusal(err, "for serving only") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	for _, c := range []struct {
		namespace, signer string
		usage             certificatesv1.KeyUsage
		let               bool
	}{
		{tenant, "beta.eks.amazonaws.com/app-serving", server, true},
		{tenant, certificatesv1.KubeAPIServerClientKubeletSignerName, client, false},
		{tenant, "kubernetes.io/legacy-unknown.example", client, false},
		{tenant, "example.com/any", server, false},
		{"liqo-tenant-of-nobody", certificatesv1.KubeAPIServerClientSignerName, client, false},
		{"liqo-tenant-", certificatesv1.KubeAPIServerClientSignerName, client, false},
		// Liqo does not approve what these ask for, and its own controllers ask for clients' certificates.
		{"liqo", certificatesv1.KubeAPIServerClientSignerName, client, true},
		{"liqo-tenant", certificatesv1.KubeAPIServerClientSignerName, client, true},
		{own, certificatesv1.KubeAPIServerClientSignerName, client, true},
	} {
		err := account(c.namespace).Create(t.Context(), certificateRequest(t, c.signer, c.usage), kube.DryRunAll)
		if c.let && err != nil || !c.let && !isRefusal(err, "for serving only") {
			t.Errorf("an account of %s asks %s: %v, want %t", c.namespace, c.signer, err, c.let)
		}
	}
}
