package peering

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Consumer is this cluster's half of the peerings in which it borrows. Client must read Secrets from
// the API server, not from a cache.
type Consumer struct {
	client.Client
	// Cluster is this cluster's ID; LiqoNamespace is the namespace of its Liqo.
	Cluster, LiqoNamespace string
	// Proxy returns the URL of the proxy to a provider's API server, for the network that the
	// provider names. Empty: the network does not exist yet.
	Proxy func(ctx context.Context, provider string, network *api.HandshakeNetwork) (string, error)
	// Allows returns an error if Liqo must not call a URL that a provider names. Nil: all are allowed.
	Allows func(ctx context.Context, url string) error
	// Clock is the machine's by default.
	Clock clock.PassiveClock

	openings recent[opening]
}

// opening is this side's state of one handshake: the Secret with the signed nonce, and the request.
type opening struct {
	signed *corev1.Secret
	asks   api.HandshakeTenant
}

const (
	signedNonceSecret = "liqo-signed-nonce"
	organization      = "liqo.io" // marks certificates of control planes in Liqo
	nonceSize         = 64        // bytes, as in Liqo
)

// Open takes the steps that are possible now. received is the provider's newest valid message, nil
// if there is none. Errors: BadSignature for an invalid message; errors of the API server.
func (c *Consumer) Open(ctx context.Context, provider string, received *api.Handshake) (Progress, error) {
	namespace, err := liqo.EnsureTenantNamespace(ctx, c.Client, provider)
	if err != nil {
		return Progress{}, err
	}
	identity, err := c.identity(ctx, namespace, provider)
	if err != nil {
		return Progress{}, err
	}
	switch {
	case identity != nil && !liqo.IsOurs(identity):
		return Progress{Open: true, ByHand: true}, nil
	case identity != nil: // Liqo makes a kubeconfig from it and copies our objects
		return c.renew(ctx, namespace, provider, identity, received)
	case received == nil:
		return waiting(StepNonce), nil
	}
	if received.Identity != nil {
		if made, err := c.install(ctx, namespace, provider, received); err != nil || made {
			return Progress{Open: made, Step: StepIdentity}, err
		}
	}
	if received.Nonce != nil {
		return c.answer(ctx, namespace, provider, received)
	}
	return waiting(StepIdentity), nil
}

// Session returns the session of the peering with a provider; empty if an admin made the peering.
func (c *Consumer) Session(ctx context.Context, provider string) (string, error) {
	namespace, err := liqo.TenantNamespace(ctx, c.Client, provider)
	if err != nil || namespace == "" {
		return "", err
	}
	signed, err := c.signedNonce(ctx, namespace)
	if err != nil || signed == nil {
		return "", err
	}
	return session(signed.Data[consts.NonceSecretField]), nil
}

// signedNonce returns the Secret of the opening; nil if there is none or an admin made it.
func (c *Consumer) signedNonce(ctx context.Context, namespace string) (*corev1.Secret, error) {
	var signed corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: signedNonceSecret}, &signed)
	if err != nil || !liqo.IsOurs(&signed) {
		return nil, client.IgnoreNotFound(err)
	}
	return &signed, nil
}

// identity returns the Identity with which our Liqo acts in the provider's cluster, nil if there is none.
func (c *Consumer) identity(ctx context.Context, namespace, provider string) (*authv1beta1.Identity, error) {
	var list authv1beta1.IdentityList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		id := &list.Items[i]
		if id.Spec.Type == authv1beta1.ControlPlaneIdentityType &&
			string(id.Spec.ClusterID) == provider && id.DeletionTimestamp == nil {
			return id, nil
		}
	}
	return nil, nil
}

// answer signs the nonce and requests a Tenant.
func (c *Consumer) answer(ctx context.Context, namespace, provider string, received *api.Handshake) (Progress, error) {
	nonce := received.Nonce.Nonce
	if received.Session != session(nonce) {
		return Progress{}, api.Errorf(api.CodeBadSignature, "the nonce of %s belongs to another session", provider)
	}
	if err := checkNonce(nonce); err != nil {
		return Progress{}, api.Errorf(api.CodeBadSignature, "the nonce of %s: %s", provider, err)
	}
	o, err := c.makeOpening(ctx, namespace, provider, nonce)
	if err != nil {
		return Progress{}, err
	}
	proxy, through, err := c.proxy(ctx, provider, received)
	if err != nil {
		return Progress{}, err
	}
	if through && proxy == "" {
		return Progress{Step: StepNetwork, Session: received.Session, Through: true}, nil
	}
	o.asks.ProxyURL = proxy
	say := &api.HandshakeContent{Tenant: &o.asks}
	return Progress{Step: StepIdentity, Session: received.Session, Through: through, Say: say}, nil
}

// checkNonce rejects anything but 64 bytes in base64. We sign the nonce, which another cluster
// chose, with the key that signs certificate requests: it must not be able to be one.
func checkNonce(nonce []byte) error {
	if random, err := base64.StdEncoding.DecodeString(string(nonce)); err != nil || len(random) != nonceSize {
		return fmt.Errorf("it must be %d bytes in base64", nonceSize)
	}
	return nil
}

// makeOpening signs the nonce with our Liqo's key and makes the request for the provider: the public key
// and a certificate request. The private key stays in its Secret. The result is kept for two seconds.
func (c *Consumer) makeOpening(ctx context.Context, namespace, provider string, nonce []byte) (o opening, err error) {
	if o, known := c.openings.of(provider, now(c.Clock)); known &&
		bytes.Equal(o.signed.Data[consts.NonceSecretField], nonce) {
		return o, nil
	}
	key, public, err := Keys(ctx, c.Client, c.LiqoNamespace)
	if err != nil {
		return o, err
	}
	o.asks.PublicKey = public
	if o.asks.Signature, err = key.Sign(nil, nonce, crypto.Hash(0)); err != nil {
		return o, err
	}
	if o.asks.CSR, err = newCSR(key, organization, c.Cluster); err != nil {
		return o, err
	}
	if o.signed, err = c.signed(ctx, namespace, provider, nonce, o.asks.Signature); err != nil {
		return o, err
	}
	o.asks.Challenge = string(o.signed.UID)
	if o.asks.SealTo, err = sealTo(o.signed.Data[sealField]); err == nil {
		c.openings.keep(provider, o, now(c.Clock))
	}
	return o, err
}

// proxy returns the URL of the proxy to the provider's API server, as this cluster computes it, and
// whether the provider requires access through the network.
func (c *Consumer) proxy(ctx context.Context, provider string,
	received *api.Handshake) (url string, through bool, err error) {
	if received.Nonce == nil || received.Nonce.APIServerAccess != api.APIServerNetwork || c.Proxy == nil {
		return "", false, nil
	}
	url, err = c.Proxy(ctx, provider, received.Network)
	return url, true, err
}

// signed returns the Secret with the nonce and its signature, in Liqo's format. Each opening creates
// a new one, so its UID is a challenge that no older message answers.
func (c *Consumer) signed(ctx context.Context, namespace, provider string,
	nonce, signature []byte) (*corev1.Secret, error) {
	seal, err := newSeal()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: signedNonceSecret,
			Labels: liqo.Labels(provider, consts.SignedNonceSecretLabelKey, "true")},
		Data: map[string][]byte{consts.NonceSecretField: nonce,
			consts.SignedNonceSecretField: signature, sealField: seal},
	}
	if err = c.Create(ctx, secret); !apierrors.IsAlreadyExists(err) {
		return secret, err
	}
	old := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(secret), old); err != nil {
		return nil, err
	}
	if bytes.Equal(old.Data[consts.NonceSecretField], nonce) { // left by an interrupted opening
		return old, nil
	}
	if err := c.Delete(ctx, old, client.Preconditions{UID: &old.UID}); err != nil { // left by a former peering
		return nil, err
	}
	return secret, c.Create(ctx, secret)
}

// install creates the Identity with the certificate that the provider issued, if it answers our
// request in this session.
func (c *Consumer) install(ctx context.Context, namespace, provider string,
	received *api.Handshake) (made bool, err error) {
	o, known := c.openings.of(provider, now(c.Clock))
	if !known {
		o.signed = &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: signedNonceSecret}, o.signed); err != nil {
			return false, client.IgnoreNotFound(err) // we made no request
		}
	}
	nonce, given := o.signed, received.Identity
	if !answers(received, nonce, now(c.Clock)) {
		return false, nil
	}
	if proxy, _, err := c.proxy(ctx, provider, received); err != nil || given.ProxyURL != proxy {
		return false, err // not what we request now: the request is repeated
	}
	if c.Allows != nil && given.ProxyURL == "" { // a proxy calls it from the provider's own network
		if err := c.Allows(ctx, given.APIServer); err != nil {
			return false, err
		}
	}
	identity := NewIdentity(namespace, provider)
	identity.Spec.Namespace = &given.Namespace
	identity.Spec.AuthParams = authv1beta1.AuthParams{CA: given.CA,
		SignedCRT: given.Certificate, APIServer: given.APIServer}
	if given.ProxyURL != "" {
		identity.Spec.AuthParams.ProxyURL = &given.ProxyURL
	}
	if len(given.Sealed) > 0 {
		if identity.Spec.AuthParams.AwsConfig, err = unseal(nonce.Data[sealField],
			received.Session, given.Challenge, given.Sealed); err != nil {
			return false, err
		}
	}
	if copies, err := c.remember(ctx, namespace, provider); err != nil || !copies {
		return false, err
	}
	if err = c.Create(ctx, identity); apierrors.IsAlreadyExists(err) { // our cache lags, or the one before is still there
		return false, nil
	}
	return true, err
}

// NewIdentity returns the Identity at a provider, without the fields that the provider provides.
func NewIdentity(namespace, provider string) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controlplane-" + provider, Labels: liqo.Labels(provider)},
		Spec: authv1beta1.IdentitySpec{ClusterID: liqov1beta1.ClusterID(provider),
			Type: authv1beta1.ControlPlaneIdentityType},
	}
}
