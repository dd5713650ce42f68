package peering

import (
	"crypto/hpke"
	"encoding/json"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	"github.com/bourse-dev/bourse/api"
)

// A provider on EKS gives its consumers an AWS access key: the only secret of the handshake. It is
// sealed (HPKE, RFC 9180, base mode) to a key that the consumer makes for one opening and keeps
// beside its signed nonce. The KEM is the hybrid of ML-KEM-768 and X25519, because a relay may store
// messages for years.
var (
	kem  = hpke.MLKEM768X25519()
	kdf  = hpke.HKDFSHA256()
	aead = hpke.ChaCha20Poly1305()
)

// sealField is the field of the private key in the Secret with the signed nonce.
const sealField = "bourseSeal"

// newSeal returns a new private key.
func newSeal() ([]byte, error) {
	key, err := kem.GenerateKey()
	if err != nil {
		return nil, err
	}
	return key.Bytes()
}

// sealTo returns the public half of a private key; nil without one, as in an opening by an earlier version.
func sealTo(private []byte) ([]byte, error) {
	if len(private) == 0 {
		return nil, nil
	}
	key, err := kem.NewPrivateKey(private)
	if err != nil {
		return nil, err
	}
	return key.PublicKey().Bytes(), nil
}

// bound binds a sealed message to its session and challenge: under others it cannot be opened.
func bound(session, challenge string) []byte {
	return []byte("bourse identity\x00" + session + "\x00" + challenge)
}

// seal encrypts the part of an identity that only the consumer may read. Errors: Invalid without a valid key.
func seal(to []byte, session, challenge string, secret *authv1beta1.AwsConfig) ([]byte, error) {
	key, err := kem.NewPublicKey(to)
	if err != nil {
		return nil, api.Invalid("tenant.sealTo", "not a key that an AWS access key can be sealed to: %s", err).
			Fix("upgrade the consumer's agent")
	}
	plain, err := json.Marshal(secret)
	if err != nil {
		return nil, err
	}
	return hpke.Seal(key, kdf, aead, bound(session, challenge), plain)
}

// unseal decrypts it. Errors: BadSignature.
func unseal(private []byte, session, challenge string, sealed []byte) (*authv1beta1.AwsConfig, error) {
	key, err := kem.NewPrivateKey(private)
	if err == nil {
		var plain []byte
		if plain, err = hpke.Open(key, kdf, aead, bound(session, challenge), sealed); err == nil {
			var secret authv1beta1.AwsConfig
			if err = json.Unmarshal(plain, &secret); err == nil {
				return &secret, nil
			}
		}
	}
	return nil, api.Errorf(api.CodeBadSignature, "the sealed part of the identity cannot be opened: %s", err)
}
