package peering

import (
	"context"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// renew is what an open peering still needs: nothing, as long as its certificate lasts. Our Liqo fetches the next one by the one that it
// has; once that has ended, nobody but the agents can bring it. It is asked for again, as at first, and takes its place in the Identity,
// where Liqo would put it: of an Identity that is deleted instead, Liqo lets neither the kubeconfig go nor begins with another.
func (c *Consumer) renew(ctx context.Context, namespace, provider string, identity *authv1beta1.Identity, heard *api.Handshake) (Progress, error) {
	out := Progress{Open: true}
	from, until, err := life(identity.Spec.AuthParams.SignedCRT)
	if err != nil || time.Now().Before(until) { // none can be read where a cloud knows consumers otherwise
		return out, nil
	}
	signed, err := c.signedNonce(ctx, namespace)
	if err != nil || signed == nil {
		return out, err
	}
	proxy := value(identity.Spec.AuthParams.ProxyURL)
	if heard != nil && heard.Identity != nil && answers(heard, signed) && heard.Identity.ProxyURL == proxy {
		if later, _, err := life(heard.Identity.Certificate); err == nil && later.After(from) {
			next := identity.DeepCopy()
			next.Spec.AuthParams.SignedCRT = heard.Identity.Certificate
			return out, c.Patch(ctx, next, client.MergeFromWithOptions(identity, client.MergeFromWithOptimisticLock{}))
		}
	}
	nonce := signed.Data[consts.NonceSecretField]
	o, err := c.opening(ctx, namespace, provider, nonce)
	if err != nil {
		return Progress{}, err
	}
	o.asks.ProxyURL = proxy
	out.Say, out.Session, out.Repeat = &api.HandshakeContent{Tenant: &o.asks}, session(nonce), true
	return out, nil
}

// answers says whether a certificate that the provider issued is the answer to what we asked for by this nonce, and lasts.
func answers(heard *api.Handshake, signed *corev1.Secret) bool {
	if heard.Session != session(signed.Data[consts.NonceSecretField]) || heard.Identity.Challenge != string(signed.UID) {
		return false // of a peering that was
	}
	_, until, err := life(heard.Identity.Certificate)
	return err != nil || time.Now().Before(until) // of before it was renewed: that is asked for anew
}
