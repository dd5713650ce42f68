package peering

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Provider is this cluster's half of the peerings in which another cluster borrows. Client must read
// Secrets from the API server, not from a cache.
type Provider struct {
	client.Client
	// Access returns how consumers must reach this cluster's API server. Nil: directly.
	Access func() api.APIServerAccess
	// Clock is the machine's by default.
	Clock clock.PassiveClock

	nonces recent[[]byte]
}

// usesNetwork reports whether a consumer reaches this cluster's API server through the network. An
// existing Tenant decides; without one, the configuration does.
func (p *Provider) usesNetwork(tenant *authv1beta1.Tenant) bool {
	if tenant != nil {
		return ptr.Deref(tenant.Spec.ProxyURL, "") != ""
	}
	return p.Access != nil && p.Access() == api.APIServerNetwork
}

const nonceSecret = "liqo-nonce"

// draining marks a Tenant that we drained, as opposed to one that an admin drained.
const draining = api.Group + "/draining"

// Open takes the steps that are possible now. received is the consumer's newest valid message, nil
// if there is none. Errors: BadSignature for an invalid message; errors of the API server.
func (p *Provider) Open(ctx context.Context, consumer string, received *api.Handshake) (Progress, error) {
	namespace, err := liqo.EnsureTenantNamespace(ctx, p.Client, consumer)
	if err != nil {
		return Progress{}, err
	}
	tenant, err := p.tenant(ctx, namespace, consumer)
	if err != nil {
		return Progress{}, err
	}
	if tenant != nil && !liqo.IsOurs(tenant) {
		return Progress{Open: true, ByHand: true}, nil
	}
	if tenant != nil && tenant.Annotations[draining] != "" { // a forced end has begun: finish it first
		_, err := p.Close(ctx, consumer, true)
		return waiting(StepNonce), err
	}
	nonce, err := p.nonce(ctx, namespace, consumer)
	if err != nil || nonce == nil {
		return waiting(StepNonce), err
	}
	sent := &api.HandshakeNonce{Nonce: nonce}
	out := Progress{Step: StepTenant, Session: session(nonce), Say: &api.HandshakeContent{Nonce: sent}}
	if out.Through = p.usesNetwork(tenant); out.Through {
		sent.APIServerAccess = api.APIServerNetwork
	}
	challenge, to := "", []byte(nil)
	if received != nil && received.Tenant != nil && received.Session == out.Session {
		if out.Through && received.Tenant.ProxyURL == "" {
			return Progress{}, api.Errorf(api.CodeNoNetwork,
				"%s asks to reach this API server directly, but this cluster allows "+
					"access through the network only: the agent of %[1]s is too old", consumer).
				Fix("update the agent of %s, or set apiServerAccess: direct in the SharingPolicy", consumer)
		}
		challenge, to = received.Tenant.Challenge, received.Tenant.SealTo
		if tenant, err = p.admit(ctx, namespace, consumer, tenant, received.Tenant); err != nil {
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
		if challenge == "" { // the consumer has not named the key to seal to
			return out, nil
		}
		if sealed, err = seal(to, out.Session, challenge, a.AwsConfig); err != nil {
			return Progress{}, err
		}
	}
	// The message repeats the nonce, so that a consumer that has removed its objects can start again.
	out.Say = &api.HandshakeContent{Nonce: sent, Identity: &api.HandshakeIdentity{
		Challenge: challenge, Namespace: tenant.Status.TenantNamespace, CA: a.CA, Certificate: a.SignedCRT,
		APIServer: a.APIServer, ProxyURL: ptr.Deref(a.ProxyURL, ""), Sealed: sealed,
	}}
	out.Repeat, err = p.awaitsSlice(ctx, namespace)
	return out, err
}

// awaitsSlice reports whether the consumer has no ResourceSlice here. It may have lost the message with the
// Identity: its agent restarted, or the broker did. Such a consumer knows nothing that it could ask.
func (p *Provider) awaitsSlice(ctx context.Context, namespace string) (bool, error) {
	var list authv1beta1.ResourceSliceList
	err := p.List(ctx, &list, client.InNamespace(namespace), client.Limit(1))
	return len(list.Items) == 0, err
}

// ByHand reports whether an admin, not Bourse, made the peering with a consumer.
func (p *Provider) ByHand(ctx context.Context, consumer string) (bool, error) {
	namespace, err := liqo.TenantNamespace(ctx, p.Client, consumer)
	if err != nil || namespace == "" {
		return false, err
	}
	tenant, err := p.tenant(ctx, namespace, consumer)
	return tenant != nil && !liqo.IsOurs(tenant), err
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

// nonce returns the nonce that the consumer must sign. Each opening has a new one. We create the
// Secret in Liqo's format, and Liqo uses it. If Liqo created it, no event would announce it.
func (p *Provider) nonce(ctx context.Context, namespace, consumer string) ([]byte, error) {
	if nonce, known := p.nonces.of(consumer, now(p.Clock)); known {
		return nonce, nil
	}
	random := make([]byte, nonceSize)
	_, _ = rand.Read(random) // never fails
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nonceSecret,
			Labels: liqo.Labels(consumer, consts.NonceSecretLabelKey, "true")},
		Data: map[string][]byte{consts.NonceSecretField: []byte(base64.StdEncoding.EncodeToString(random))},
	}
	err := p.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // left by an interrupted opening
		err = p.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	nonce := secret.Data[consts.NonceSecretField]
	if err == nil && nonce != nil {
		p.nonces.keep(consumer, nonce, now(p.Clock))
	}
	return nonce, err
}

// admit creates or updates the Tenant as the consumer asks. Our Liqo checks the signature of the nonce.
func (p *Provider) admit(ctx context.Context, namespace, consumer string,
	old *authv1beta1.Tenant, asked *api.HandshakeTenant) (*authv1beta1.Tenant, error) {
	if err := checkCSR(asked, consumer); err != nil {
		return nil, err
	}
	if old == nil {
		t := NewTenant(namespace, consumer)
		fill(&t.Spec, asked)
		return t, client.IgnoreAlreadyExists(p.Create(ctx, t)) // our cache may lag: the next call compares
	}
	if bytes.Equal(old.Spec.PublicKey, asked.PublicKey) && bytes.Equal(old.Spec.CSR, asked.CSR) &&
		bytes.Equal(old.Spec.Signature, asked.Signature) &&
		ptr.Deref(old.Spec.ProxyURL, "") == asked.ProxyURL {
		return old, nil
	}
	t := old.DeepCopy()
	fill(&t.Spec, asked)
	return t, p.Patch(ctx, t, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
}

// NewTenant returns the Tenant of a consumer, without the fields that the consumer provides.
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

// checkCSR rejects a certificate request for another name: Liqo uses the cluster ID as user name.
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
