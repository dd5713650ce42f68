package peering

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// RemedyKeys is how a cluster gets a Liqo key by which it can borrow.
const RemedyKeys = "install Liqo without authentication.tlsCompatibilityMode, and delete its Secret authentication-keys; then make the hand-made peerings again"

// Keys are those of a cluster's Liqo: what signs, and its public half in PEM. Only Ed25519 is taken. A provider bounds the length of
// the requests that a consumer has certified, because Liqo certifies each group that one names and checks the first alone; a
// request by an RSA key is so long that further groups fit in what its line breaks can save.
// Errors: NotFound of the API server's; Unavailable, with the remedy, where there is no key, or one of another kind.
func Keys(ctx context.Context, r client.Reader, liqoNamespace string) (signer crypto.Signer, public []byte, err error) {
	var keys corev1.Secret
	if err := r.Get(ctx, client.ObjectKey{Namespace: liqoNamespace, Name: consts.AuthKeysSecretName}, &keys); err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(keys.Data[consts.PrivateKeyField])
	if block == nil {
		return nil, nil, api.Errorf(api.CodeUnavailable, "Secret %s/%s holds no key", liqoNamespace, consts.AuthKeysSecretName).Fix("wait until Liqo has made it")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, nil, api.Errorf(api.CodeUnavailable, "the key of this cluster's Liqo is a %T, not Ed25519: no provider accepts it, because the size of its certificates has no bound", key).Fix(RemedyKeys)
	}
	return ed, keys.Data[consts.PublicKeyField], nil
}
