package peering

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Provider is this cluster's half of the peerings in which another cluster borrows. Client must read Secrets from the
// API server, not from a cache.
type Provider struct {
	client.Client
	// Access is how consumers are to reach this cluster's API server. Nil: directly.
	Access func() api.APIServerAccess

	nonces recent[[]byte]
}

// through says whether a consumer reaches this cluster's API server through the network: as its Tenant has it, if there is one.
func (p *Provider) through(tenant *authv1beta1.Tenant) bool {
	if tenant != nil {
		return value(tenant.Spec.ProxyURL) != ""
	}
	return p.Access != nil && p.Access() == api.APIServerNetwork
}

const nonceSecret = "liqo-nonce"

// draining marks a Tenant that we drained, to be told from one that an admin did.
const draining = api.Group + "/draining"

// Open does what can be done now. heard is the newest valid message of the consumer, nil if there is none.
// Errors: BadSignature where the consumer says what cannot be right; the API server's.
func (p *Provider) Open(ctx context.Context, consumer string, heard *api.Handshake) (Progress, error) {
	namespace, err := liqo.EnsureTenantNamespace(ctx, p.Client, consumer)
	if err != nil {
		return Progress{}, err
	}
	tenant, err := p.tenant(ctx, namespace, consumer)
	if err != nil {
		return Progress{}, err
	}
	if tenant != nil && !liqo.Ours(tenant) {
		return Progress{Open: true, ByHand: true}, nil
	}
	if tenant != nil && tenant.Annotations[draining] != "" { // an end without the consumer has begun, and goes on first
		_, err := p.Close(ctx, consumer, true)
		return waiting(StepNonce), err
	}
	nonce, err := p.nonce(ctx, namespace, consumer)
	if err != nil || nonce == nil {
		return waiting(StepNonce), err
	}
	said := &api.HandshakeNonce{Nonce: nonce}
	out := Progress{Step: StepTenant, Session: session(nonce), Say: &api.HandshakeContent{Nonce: said}}
	if out.Through = p.through(tenant); out.Through {
		said.APIServerAccess = api.APIServerNetwork
	}
	challenge, to := "", []byte(nil)
	if heard != nil && heard.Tenant != nil && heard.Session == out.Session {
		if out.Through && heard.Tenant.ProxyURL == "" {
			return Progress{}, api.Errorf(api.CodeNoNetwork, "%s asks to reach this API server directly, and it is reached through the network only: its agent is of a version that does not know that", consumer).
				Fix("update the agent of %s, or say apiServerAccess: direct in the SharingPolicy", consumer)
		}
		challenge, to = heard.Tenant.Challenge, heard.Tenant.SealTo
		if tenant, err = p.admit(ctx, namespace, consumer, tenant, heard.Tenant); err != nil {
			return Progress{}, err
		}
	}
	if tenant == nil || tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "" {
		return out, nil
	}
	a := tenant.Status.AuthParams
	out.Open, out.Step = true, ""
	var sealed []byte
	if a.AwsConfig != nil {
		if challenge == "" { // the consumer has yet to say to which key
			return out, nil
		}
		if sealed, err = seal(to, out.Session, challenge, a.AwsConfig); err != nil {
			return Progress{}, err
		}
	}
	// The nonce goes with it: a consumer that has taken its part back meanwhile begins anew with it.
	out.Say = &api.HandshakeContent{Nonce: said, Identity: &api.HandshakeIdentity{
		Challenge: challenge, Namespace: tenant.Status.TenantNamespace, CA: a.CA, Certificate: a.SignedCRT, APIServer: a.APIServer, ProxyURL: value(a.ProxyURL), Sealed: sealed,
	}}
	return out, nil
}

// ByHand says whether somebody else made the peering with a consumer.
func (p *Provider) ByHand(ctx context.Context, consumer string) (bool, error) {
	namespace, err := liqo.TenantNamespace(ctx, p.Client, consumer)
	if err != nil || namespace == "" {
		return false, err
	}
	tenant, err := p.tenant(ctx, namespace, consumer)
	return tenant != nil && !liqo.Ours(tenant), err
}

// tenant returns the Tenant of a consumer, nil if there is none.
func (p *Provider) tenant(ctx context.Context, namespace, consumer string) (*authv1beta1.Tenant, error) {
	var list authv1beta1.TenantList
	if err := p.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if t := &list.Items[i]; string(t.Spec.ClusterID) == consumer && t.DeletionTimestamp == nil {
			return t, nil
		}
	}
	return nil, nil
}

// nonce returns what the consumer must sign, new with each opening. It is made as Liqo makes it, which takes what is there: to have
// Liqo do it, as an earlier version did, is to wait for what no event tells of.
func (p *Provider) nonce(ctx context.Context, namespace, consumer string) ([]byte, error) {
	if nonce, known := p.nonces.of(consumer); known {
		return nonce, nil
	}
	random := make([]byte, nonceSize)
	_, _ = rand.Read(random) // it never fails
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nonceSecret, Labels: liqo.Labels(consumer, consts.NonceSecretLabelKey, "true")},
		Data:       map[string][]byte{consts.NonceSecretField: []byte(base64.StdEncoding.EncodeToString(random))},
	}
	err := p.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // of an opening that was interrupted
		err = p.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	nonce := secret.Data[consts.NonceSecretField]
	if err == nil && nonce != nil {
		p.nonces.keep(consumer, nonce)
	}
	return nonce, err
}

// admit makes the Tenant what the consumer asks for. Whether the nonce is signed by that key, our Liqo checks.
func (p *Provider) admit(ctx context.Context, namespace, consumer string, old *authv1beta1.Tenant, asked *api.HandshakeTenant) (*authv1beta1.Tenant, error) {
	if err := checkCSR(asked, consumer); err != nil {
		return nil, err
	}
	if old == nil {
		t := NewTenant(namespace, consumer)
		fill(&t.Spec, asked)
		return t, p.Create(ctx, t)
	}
	if bytes.Equal(old.Spec.PublicKey, asked.PublicKey) && bytes.Equal(old.Spec.CSR, asked.CSR) && bytes.Equal(old.Spec.Signature, asked.Signature) &&
		value(old.Spec.ProxyURL) == asked.ProxyURL {
		return old, nil
	}
	t := old.DeepCopy()
	fill(&t.Spec, asked)
	return t, p.Patch(ctx, t, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
}

// NewTenant is the Tenant of a consumer, without what the consumer says.
func NewTenant(namespace, consumer string) *authv1beta1.Tenant {
	policy := authv1beta1.KeysExchange
	return &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: consumer, Labels: liqo.Labels(consumer)},
		Spec: authv1beta1.TenantSpec{
			ClusterID: liqov1beta1.ClusterID(consumer), TenantCondition: authv1beta1.TenantConditionActive, AuthzPolicy: &policy,
		},
	}
}

func fill(spec *authv1beta1.TenantSpec, asked *api.HandshakeTenant) {
	spec.PublicKey, spec.CSR, spec.Signature, spec.ProxyURL = asked.PublicKey, asked.CSR, asked.Signature, nil
	if asked.ProxyURL != "" {
		spec.ProxyURL = &asked.ProxyURL
	}
}

// checkCSR refuses a certificate request in another name: in Liqo a cluster ID becomes a user.
func checkCSR(asked *api.HandshakeTenant, consumer string) error {
	csr, err := parseCSR(asked.CSR, consumer)
	if err != nil {
		return err
	}
	s := csr.Subject
	if s.CommonName != consumer || len(s.Organization) != 1 || s.Organization[0] != organization || len(s.Names) != 2 {
		return api.Errorf(api.CodeBadSignature, "the certificate request of %s is for %.200q", consumer, s)
	}
	return nil
}

// Close removes what Open made; done says that nothing of it is left. It waits until the consumer has taken back what
// its Liqo copied here, unless it is told not to: a consumer may be gone for ever. A peering that somebody else made stays as it is.
func (p *Provider) Close(ctx context.Context, consumer string, force bool) (done bool, err error) {
	delete(p.nonces, consumer)
	namespace, err := liqo.TenantNamespace(ctx, p.Client, consumer)
	if err != nil || namespace == "" {
		return err == nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nonceSecret}}
	byHand, err := p.ByHand(ctx, consumer)
	if err != nil {
		return false, err
	}
	if byHand { // who made it takes it down
		return true, deleteOurs(ctx, p.Client, secret)
	}
	left, err := remains(ctx, p.Client, namespace, consts.ReplicationStatusLabel)
	if err != nil {
		return false, err
	}
	if !left {
		left, err = p.mapped(ctx, consumer)
	}
	wait := left
	if err == nil && !left {
		wait, err = renewing(ctx, p.Client, namespace, consts.ReplicationStatusLabel)
	}
	if err != nil || wait && !force {
		return false, err
	}
	var tenants authv1beta1.TenantList
	if err := p.List(ctx, &tenants, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	gone := true
	for i := range tenants.Items {
		t := &tenants.Items[i]
		if !liqo.Ours(t) {
			continue
		}
		gone = false
		if left { // Liqo takes its rights and removes what it has copied; only then do the policies go
			if err := p.drain(ctx, t); err != nil {
				return false, err
			}
			continue
		}
		if t.DeletionTimestamp == nil {
			if err := p.Delete(ctx, t); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
	}
	if err := deleteOurs(ctx, p.Client, secret); err != nil || !gone {
		return false, err
	}
	return true, leaveNamespace(ctx, p.Client, namespace)
}

// mapped says whether a namespace is left that Liqo made for a consumer. One whose NamespaceMap is gone Liqo has forgotten
// (it does, when its API server goes away at the wrong moment): that is deleted here.
func (p *Provider) mapped(ctx context.Context, consumer string) (left bool, err error) {
	var list corev1.NamespaceList
	if err := p.List(ctx, &list, client.MatchingLabels{consts.RemoteClusterID: consumer}); err != nil {
		return false, err
	}
	for i := range list.Items {
		ns := &list.Items[i]
		namespace, name, found := strings.Cut(ns.Annotations[consts.RemoteNamespaceManagedByAnnotationKey], "/")
		if !found {
			continue
		}
		left = true
		err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &offv1beta1.NamespaceMap{})
		if apierrors.IsNotFound(err) && ns.DeletionTimestamp == nil {
			err = p.Delete(ctx, ns, client.Preconditions{UID: &ns.UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
	}
	return left, nil
}

// drain has Liqo take a consumer's rights and remove all that it has copied here.
func (p *Provider) drain(ctx context.Context, t *authv1beta1.Tenant) error {
	if t.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return nil
	}
	before := t.DeepCopy()
	t.Spec.TenantCondition = authv1beta1.TenantConditionDrained
	metav1.SetMetaDataAnnotation(&t.ObjectMeta, draining, "true")
	return client.IgnoreNotFound(p.Patch(ctx, t, client.MergeFrom(before)))
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
