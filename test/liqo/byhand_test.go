package liqo

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// byHand is a peering as an admin of both clusters makes it with Liqo's own objects.
type byHand struct {
	t                  *testing.T
	consumer, provider *federation.Member
}

func (h byHand) make(at *federation.Member, o kube.Object) {
	h.t.Helper()
	if err := at.Objects.Create(h.t.Context(), o); err != nil {
		h.t.Fatal(err)
	}
}

// has waits until an object is what it should be.
func (h byHand) has(at *federation.Member, o kube.Object, what string, is func() bool) {
	h.t.Helper()
	eventually(h.t, what, func(ctx context.Context) error {
		if err := at.Objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if !is() {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
}

func (h byHand) object(peer, namespace, name string, more ...string) metav1.ObjectMeta {
	labels := map[string]string{"liqo.io/remote-cluster-id": peer}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

// everyVirtualNode selects all that there are.
var everyVirtualNode = corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
	MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpIn, Values: []string{"virtual-node"}}},
}}}

// peer does Liqo's handshake.
func (h byHand) peer() {
	h.t.Helper()
	c, p := h.consumer, h.provider
	atProvider, atConsumer := "liqo-tenant-"+c.Name, "liqo-tenant-"+p.Name
	h.make(p, &corev1.Namespace{ObjectMeta: h.object(c.Name, "", atProvider, "liqo.io/tenant-namespace", "true")})
	h.make(c, &corev1.Namespace{ObjectMeta: h.object(p.Name, "", atConsumer, "liqo.io/tenant-namespace", "true")})
	nonce := &corev1.Secret{ObjectMeta: h.object(c.Name, atProvider, "nonce-by-hand", "liqo.io/nonce", "true")}
	h.make(p, nonce)
	h.has(p, nonce, "a nonce", func() bool { return len(nonce.Data["nonce"]) > 0 })
	signed := &corev1.Secret{ObjectMeta: h.object(p.Name, atConsumer, "signed-by-hand", "liqo.io/signed-nonce", "true"), Data: map[string][]byte{"nonce": nonce.Data["nonce"]}}
	h.make(c, signed)
	h.has(c, signed, "a signed nonce", func() bool { return len(signed.Data["signedNonce"]) > 0 })
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "authentication-keys"}}
	h.has(c, keys, "Liqo's keys", func() bool { return len(keys.Data["privateKey"]) > 0 })
	tenant := &authv1beta1.Tenant{ObjectMeta: h.object(c.Name, atProvider, c.Name), Spec: authv1beta1.TenantSpec{
		ClusterID: liqov1beta1.ClusterID(c.Name), PublicKey: keys.Data["publicKey"], CSR: h.csr(keys.Data["privateKey"]), Signature: signed.Data["signedNonce"],
	}}
	h.make(p, tenant)
	h.has(p, tenant, "a certificate", func() bool { return tenant.Status.AuthParams != nil })
	h.make(c, &authv1beta1.Identity{ObjectMeta: h.object(p.Name, atConsumer, "controlplane-"+p.Name), Spec: authv1beta1.IdentitySpec{
		ClusterID: liqov1beta1.ClusterID(p.Name), Type: authv1beta1.ControlPlaneIdentityType, Namespace: &tenant.Status.TenantNamespace, AuthParams: *tenant.Status.AuthParams,
	}})
}

func (h byHand) csr(key []byte) []byte {
	h.t.Helper()
	block, _ := pem.Decode(key)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		h.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{"liqo.io"}, CommonName: h.consumer.Name},
	}, parsed.(crypto.Signer))
	if err != nil {
		h.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// slice asks for a slice of Liqo's own class.
func (h byHand) slice(name, cpu string) *authv1beta1.ResourceSlice {
	h.t.Helper()
	id := liqov1beta1.ClusterID(h.provider.Name)
	s := &authv1beta1.ResourceSlice{
		ObjectMeta: h.object(h.provider.Name, "liqo-tenant-"+h.provider.Name, name, "liqo.io/replication", "true", "liqo.io/remoteID", h.provider.Name),
		Spec:       authv1beta1.ResourceSliceSpec{Class: authv1beta1.ResourceSliceClassDefault, ProviderClusterID: &id, Resources: corev1.ResourceList(amounts(cpu, "4Gi"))},
	}
	s.Annotations = map[string]string{"liqo.io/create-virtual-node": "true"}
	h.make(h.consumer, s)
	return s
}

func (h byHand) node(name, cpu string) {
	h.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.has(h.consumer, node, "a virtual node of "+cpu+" CPU", func() bool {
		got := node.Status.Allocatable[corev1.ResourceCPU]
		return got.String() == cpu
	})
}

// A peering made by hand, with a provider that lends by Bourse too, goes on as if there were no Bourse: its own class,
// resize, the same namespace name, a pod that requests nothing, and the end.
func TestAPeeringMadeByHandIsNotTouched(t *testing.T) {
	w := start(t)
	brokered := w.ask(t, w.rome, w.paris, "beside", amounts("1", "1Gi"))
	brokered.becomes("Active")

	h := byHand{t, w.milan, w.paris}
	h.peer()
	s := h.slice("by-hand", "2")
	h.node("by-hand", "2")
	s.Spec.Resources[corev1.ResourceCPU] = resource.MustParse("3")
	if err := w.milan.Objects.Patch(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}},
		kube.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resources":{"cpu":"3"}}}`))); err != nil {
		t.Fatal(err)
	}
	h.node("by-hand", "3")

	h.make(w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "same"}})
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "offloading"}, Spec: offv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offv1beta1.EnforceSameNameMappingStrategyType, PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType,
		ClusterSelector: everyVirtualNode,
	}}
	h.make(w.milan, offloading)
	h.has(w.milan, offloading, "namespace same is offloaded", func() bool { return offloading.Status.OffloadingPhase == offv1beta1.ReadyOffloadingPhaseType })
	grace := int64(1)
	h.make(w.milan, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "careless"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "c", Image: "localhost/c"}},
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "careless"}}
	h.has(w.paris, pod, "the pod runs in paris", func() bool { return pod.Status.Phase == corev1.PodRunning })

	for _, o := range []kube.Object{offloading, s} {
		if err := w.milan.Objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the slice made by hand is gone", func(ctx context.Context) error {
		var list authv1beta1.ResourceSliceList
		err := w.paris.Objects.List(ctx, &list, kube.InNamespace("liqo-tenant-milan"))
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d slices are there", len(list.Items))
		}
		return err
	})
	brokered.release()
	w.nothingLeft(t, w.rome, w.paris)
}
