package peering

import (
	"context"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// renew requests a new certificate for an open peering whose certificate has ended. Until then it
// does nothing: our Liqo fetches the next certificate with the current one. Afterwards only the
// agents can fetch it. The request is the same as at first. The new certificate replaces the old one
// in the Identity, as Liqo would do. Deleting the Identity would not help: Liqo would keep the old
// kubeconfig and never make another.
func (c *Consumer) renew(ctx context.Context, namespace, provider string,
	identity *authv1beta1.Identity, received *api.Handshake) (Progress, error) {
	out := Progress{Open: true}
	from, until, err := life(identity.Spec.AuthParams.SignedCRT)
	if err != nil || now(c.Clock).Before(until) { // a cloud with its own credentials has no certificate
		return out, nil
	}
	signed, err := c.signedNonce(ctx, namespace)
	if err != nil || signed == nil {
		return out, err
	}
	proxy := ptr.Deref(identity.Spec.AuthParams.ProxyURL, "")
	if received != nil && received.Identity != nil && answers(received, signed, now(c.Clock)) &&
		received.Identity.ProxyURL == proxy {
		if later, _, err := life(received.Identity.Certificate); err == nil && later.After(from) {
			next := identity.DeepCopy()
			next.Spec.AuthParams.SignedCRT = received.Identity.Certificate
			return out, c.Patch(ctx, next, client.MergeFromWithOptions(identity, client.MergeFromWithOptimisticLock{}))
		}
	}
	nonce := signed.Data[consts.NonceSecretField]
	o, err := c.makeOpening(ctx, namespace, provider, nonce)
	if err != nil {
		return Progress{}, err
	}
	o.asks.ProxyURL = proxy
	out.Say, out.Session, out.Repeat = &api.HandshakeContent{Tenant: &o.asks}, session(nonce), true
	return out, nil
}

// answers reports whether a certificate of the provider answers our request for this nonce and is
// still valid.
func answers(received *api.Handshake, signed *corev1.Secret, now time.Time) bool {
	if received.Session != session(signed.Data[consts.NonceSecretField]) ||
		received.Identity.Challenge != string(signed.UID) {
		return false // it belongs to a former peering
	}
	_, until, err := life(received.Identity.Certificate)
	return err != nil || now.Before(until) // an ended one precedes the renewal: ask again
}
