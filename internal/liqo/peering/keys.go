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

// RemedyKeys tells an admin how to get a Liqo key with which the cluster can borrow.
const RemedyKeys = "install Liqo without authentication.tlsCompatibilityMode and delete its Secret authentication-keys; " +
	"then repeat the manual peerings"

// Keys returns the key pair of a cluster's Liqo: the signer, and the public key in PEM. Only Ed25519
// is accepted. A provider bounds the length of certificate requests, because Liqo certifies every
// group that a request names but checks only the first. A request with an RSA key is so long that
// further groups fit into what its line breaks can save.
// Errors: NotFound of the API server; Unavailable, with a remedy, for a missing key or another kind.
func Keys(ctx context.Context, r client.Reader, liqoNamespace string) (signer crypto.Signer, public []byte, err error) {
	var keys corev1.Secret
	if err := r.Get(ctx, client.ObjectKey{Namespace: liqoNamespace, Name: consts.AuthKeysSecretName}, &keys); err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(keys.Data[consts.PrivateKeyField])
	if block == nil {
		return nil, nil, api.Errorf(api.CodeUnavailable, "Secret %s/%s holds no key",
			liqoNamespace, consts.AuthKeysSecretName).Fix("wait until Liqo has made it")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, nil, api.Errorf(api.CodeUnavailable,
			"the key of this cluster's Liqo is a %T, not Ed25519; providers reject it, "+
				"because the size of its certificates is unbounded", key).Fix(RemedyKeys)
	}
	return ed, keys.Data[consts.PublicKeyField], nil
}
