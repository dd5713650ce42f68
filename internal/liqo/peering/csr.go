package peering

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// newCSR returns a certificate request in Liqo's format, in PEM.
func newCSR(signer crypto.Signer, organization, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{organization}, CommonName: name},
	}, signer)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// parseCSR parses a certificate request of one PEM block with an Ed25519 key. SliceCSR depends on
// the length of such requests.
func parseCSR(text []byte, consumer string) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, api.Errorf(api.CodeBadSignature, "the certificate request of %s is not one PEM block", consumer)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, api.Errorf(api.CodeBadSignature, "the certificate request of %s: %s", consumer, err)
	}
	if _, ok := csr.PublicKey.(ed25519.PublicKey); !ok {
		return nil, api.Errorf(api.CodeBadSignature,
			"the key of %s's Liqo is not Ed25519, so the size of its certificates is unbounded", consumer).
			Fix("install Liqo there without authentication.tlsCompatibilityMode")
	}
	return csr, nil
}

// SliceCSR returns the greatest length of an honest certificate request for a slice: one with an
// Ed25519 key that names the consumer and no further group. The length is that of base64 of PEM, as
// in Kubernetes' JSON. Liqo checks only the name and the first group of a request, but certifies all
// groups. A further group takes at least ten bytes, more than a request can save on line breaks.
func SliceCSR(consumer, slice string) (int, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return 0, err
	}
	example, err := newCSR(key, consumer, slice+"-0123456789ab")
	return base64.StdEncoding.EncodedLen(len(example)), err
}

// RemedyKeys tells an admin how to get a Liqo key with which the cluster can borrow.
const RemedyKeys = "install Liqo without authentication.tlsCompatibilityMode and delete its Secret " +
	"authentication-keys; " +
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
