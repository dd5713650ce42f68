// Package byhand peers two clusters as an admin of both would, with Liqo's own objects and nothing
// of Bourse: what Bourse must leave alone, and what it is measured against.
package byhand

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// Peering is one direction.
type Peering struct {
	Consumer, Provider *federation.Member
}

// patience is how long any step may take.
const patience = 90 * time.Second

// until asks until there is no error, and says what it waited for.
func until(ctx context.Context, what string, ask func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		now := ask(ctx)
		if ctx.Err() == nil || last == nil {
			last = now
		}
		return now == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, errors.Join(err, last))
	}
	return nil
}

// Has waits until an object is what it should be.
func Has(ctx context.Context, at *federation.Member, o kube.Object, what string, is func() bool) error {
	return until(ctx, what, func(ctx context.Context) error {
		if err := at.Objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if !is() {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
}

func object(peer, namespace, name string, more ...string) metav1.ObjectMeta {
	labels := map[string]string{"liqo.io/remote-cluster-id": peer}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

func (p Peering) namespaces() (atProvider, atConsumer string) {
	return "liqo-tenant-" + p.Consumer.Name, "liqo-tenant-" + p.Provider.Name
}

// Open does Liqo's handshake.
func (p Peering) Open(ctx context.Context) error {
	here, there := p.Consumer, p.Provider
	atProvider, atConsumer := p.namespaces()
	nonce := &corev1.Secret{ObjectMeta: object(here.Name, atProvider, "nonce-by-hand", "liqo.io/nonce", "true")}
	for _, o := range []kube.Object{&corev1.Namespace{ObjectMeta: object(here.Name,
		"", atProvider, "liqo.io/tenant-namespace", "true")}, nonce} {
		if err := there.Objects.Create(ctx, o); err != nil {
			return err
		}
	}
	if err := Has(ctx, there, nonce, "a nonce", func() bool { return len(nonce.Data["nonce"]) > 0 }); err != nil {
		return err
	}
	signed := &corev1.Secret{ObjectMeta: object(there.Name, atConsumer, "signed-by-hand", "liqo.io/signed-nonce", "true"),
		Data: map[string][]byte{"nonce": nonce.Data["nonce"]}}
	for _, o := range []kube.Object{&corev1.Namespace{ObjectMeta: object(there.Name,
		"", atConsumer, "liqo.io/tenant-namespace", "true")}, signed} {
		if err := here.Objects.Create(ctx, o); err != nil {
			return err
		}
	}
	if err := Has(ctx, here, signed, "a signed nonce",
		func() bool { return len(signed.Data["signedNonce"]) > 0 }); err != nil {
		return err
	}
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "authentication-keys"}}
	if err := Has(ctx, here, keys, "Liqo's keys", func() bool { return len(keys.Data["privateKey"]) > 0 }); err != nil {
		return err
	}
	csr, err := request(here.Name, keys.Data["privateKey"])
	if err != nil {
		return err
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: object(here.Name, atProvider, here.Name), Spec: authv1beta1.TenantSpec{
		ClusterID: liqov1beta1.ClusterID(here.Name), PublicKey: keys.Data["publicKey"], CSR: csr, Signature: signed.Data["signedNonce"],
	}}
	if err := there.Objects.Create(ctx, tenant); err != nil {
		return err
	}
	if err := Has(ctx, there, tenant, "a certificate",
		func() bool { return tenant.Status.AuthParams != nil }); err != nil {
		return err
	}
	return here.Objects.Create(ctx, &authv1beta1.Identity{ObjectMeta: object(there.Name,
		atConsumer, "controlplane-"+there.Name), Spec: authv1beta1.IdentitySpec{
		ClusterID: liqov1beta1.ClusterID(there.Name), Type: authv1beta1.ControlPlaneIdentityType, Namespace: &tenant.Status.TenantNamespace, AuthParams: *tenant.Status.AuthParams,
	}})
}

// request is a certificate request by Liqo's key.
func request(cluster string, key []byte) ([]byte, error) {
	block, _ := pem.Decode(key)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{"liqo.io"}, CommonName: cluster},
	}, parsed.(crypto.Signer))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), err
}

// Slice asks for a slice of Liqo's own class.
func (p Peering) Slice(ctx context.Context, name string,
	resources corev1.ResourceList) (*authv1beta1.ResourceSlice, error) {
	return p.SliceOf(ctx, authv1beta1.ResourceSliceClassDefault, name, resources)
}

// SliceOf asks for a slice of a class.
func (p Peering) SliceOf(ctx context.Context, class authv1beta1.ResourceSliceClass, name string,
	resources corev1.ResourceList) (*authv1beta1.ResourceSlice, error) {
	id := liqov1beta1.ClusterID(p.Provider.Name)
	_, namespace := p.namespaces()
	s := &authv1beta1.ResourceSlice{
		ObjectMeta: object(p.Provider.Name, namespace, name, "liqo.io/replication",
			"true", "liqo.io/remoteID", p.Provider.Name),
		Spec: authv1beta1.ResourceSliceSpec{Class: class,
			ProviderClusterID: &id, Resources: resources},
	}
	s.Annotations = map[string]string{"liqo.io/create-virtual-node": "true"}
	return s, p.Consumer.Objects.Create(ctx, s)
}

// Ready waits until a virtual node is Ready. It watches: one that asks again and again would take
// from the cluster what it waits for.
func (p Peering) Ready(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := p.Consumer.Objects.Watch(ctx, &corev1.NodeList{}, kube.MatchingFields{"metadata.name": name})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		node, is := e.Object.(*corev1.Node)
		if is && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return nil
		}
	}
	return fmt.Errorf("virtual node %s is Ready: %w", name, cmp.Or(context.Cause(ctx), errors.New("the watch ended")))
}

// End takes a slice down, and waits until its copy and its virtual node are gone.
func (p Peering) End(ctx context.Context, s *authv1beta1.ResourceSlice) error {
	atProvider, _ := p.namespaces()
	if err := p.Consumer.Objects.Delete(ctx, s); kube.IgnoreNotFound(err) != nil {
		return err
	}
	if err := gone(ctx, p.Provider,
		&authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: atProvider, Name: s.Name}}); err != nil {
		return err
	}
	return gone(ctx, p.Consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name}})
}

// Close takes all of it down, slices first, and waits until nothing is left.
func (p Peering) Close(ctx context.Context, slices ...*authv1beta1.ResourceSlice) error {
	atProvider, atConsumer := p.namespaces()
	for _, s := range slices {
		if err := p.End(ctx, s); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		at *federation.Member
		o  kube.Object
	}{
		{p.Consumer, &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: atConsumer,
			Name: "controlplane-" + p.Provider.Name}}},
		{p.Provider, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: atProvider, Name: p.Consumer.Name}}},
		{p.Consumer, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: atConsumer}}},
		{p.Provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: atProvider}}},
	} {
		if err := step.at.Objects.Delete(ctx, step.o); kube.IgnoreNotFound(err) != nil {
			return err
		}
		if err := gone(ctx, step.at, step.o); err != nil {
			return err
		}
		// Liqo removes it after the Identity, and could not without the Tenant.
		if err := gone(ctx, p.Consumer, &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: atConsumer,
			Name: "controlplane-" + p.Provider.Name}}); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until an object is not there.
func gone(ctx context.Context, at *federation.Member, o kube.Object) error {
	return until(ctx, fmt.Sprintf("%T %s is gone", o, o.GetName()), func(ctx context.Context) error {
		err := at.Objects.Get(ctx, kube.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it is there: %+v", o)
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
