package peering

import (
	"crypto/hpke"
	"encoding/json"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	"github.com/bourse-dev/bourse/api"
)

// What Liqo gives a consumer of a provider on EKS holds an access key of AWS: a secret, and the only one of the handshake. It is
// sealed (HPKE, RFC 9180, base mode) to a key that the consumer makes for one opening and keeps beside its signed nonce. The
// KEM is the hybrid of ML-KEM-768 and X25519, because whoever relays a message may keep it.
var (
	kem  = hpke.MLKEM768X25519()
	kdf  = hpke.HKDFSHA256()
	aead = hpke.ChaCha20Poly1305()
)

// sealField is where the Secret with the signed nonce has the private key.
const sealField = "bourseSeal"

// newSeal is a private key to open what is sealed to it.
func newSeal() ([]byte, error) {
	key, err := kem.GenerateKey()
	if err != nil {
		return nil, err
	}
	return key.Bytes()
}

// sealTo is the public half of a private key; nil where there is none, as of an opening by an earlier version.
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

// bound says to what a sealed message belongs: in another session, or as the answer to another challenge, it cannot be opened.
func bound(session, challenge string) []byte {
	return []byte("bourse identity\x00" + session + "\x00" + challenge)
}

// seal closes what only the consumer may read of an identity. Errors: Invalid where there is no key to seal it to.
func seal(to []byte, session, challenge string, secret *authv1beta1.AwsConfig) ([]byte, error) {
	key, err := kem.NewPublicKey(to)
	if err != nil {
		return nil, api.Invalid("tenant.sealTo", "no key to seal an AWS access key to: %s", err).Fix("upgrade the consumer's agent")
	}
	plain, err := json.Marshal(secret)
	if err != nil {
		return nil, err
	}
	return hpke.Seal(key, kdf, aead, bound(session, challenge), plain)
}

// unseal opens it again. Errors: BadSignature.
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
	return nil, api.Errorf(api.CodeBadSignature, "what is sealed of the identity cannot be opened: %s", err)
}
