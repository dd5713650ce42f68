// Package clusterkey is the key that identifies a cluster to other clusters, and the documents it signs.
//
// Each agent makes one long-lived Ed25519 key ([New]). No CA certifies it. A peer pins its fingerprint when
// the two first meet, and rejects any other key from then on. A holder of a pinned key can check a document
// with [Verify] without trusting the broker that relayed it.
//
// A signed document is a compact JWS (RFC 7515) with exactly one possible spelling. Its header has alg
// (EdDSA), kid (the signer's fingerprint) and typ (the kind of document) and nothing else. Its payload is
// canonical JSON (RFC 8785). So a [Digest] identifies one content, and all readers understand a document in
// the same way.
package clusterkey

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"

	"github.com/bourse-dev/bourse/internal/identity"
)

const pemType = "PRIVATE KEY"

// Key is a cluster's private key. It prints as its fingerprint, so that logs never contain the key.
type Key struct {
	private ed25519.PrivateKey
	public  PublicKey
}

// New makes a key from 32 bytes of random: crypto/rand.Reader, or a seeded reader in a simulation.
func New(random io.Reader) (*Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	return fromPrivate(ed25519.NewKeyFromSeed(seed)), nil
}

func fromPrivate(private ed25519.PrivateKey) *Key {
	return &Key{private: private, public: PublicKey(private.Public().(ed25519.PublicKey))}
}

// ParsePEM reads the output of [Key.PEM].
func ParsePEM(text []byte) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("cluster key: no PEM block of type %q", pemType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("cluster key: is a %T, must be Ed25519", parsed)
	}
	return fromPrivate(private), nil
}

// PEM returns the private key in PKCS #8. Store it, but never send it.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// Public returns the key that peers pin.
func (k *Key) Public() PublicKey { return k.public }

// String returns the key's fingerprint.
func (k *Key) String() string { return "cluster key " + k.public.Fingerprint().String() }

// PublicKey is an Ed25519 public key. Its text form, also in JSON, is 43 characters of base64url without
// padding. The zero value means "none" and verifies nothing.
type PublicKey [ed25519.PublicKeySize]byte

// ParsePublicKey reads the text form. It rejects weak keys, for which anyone can make signatures.
func ParsePublicKey(text string) (PublicKey, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize || base64.RawURLEncoding.EncodeToString(raw) != text {
		return PublicKey{}, fmt.Errorf("cluster public key %.64q is not 43 characters of base64url", text)
	}
	public := PublicKey(raw)
	return public, public.checkStrength()
}

// Fingerprint is the SHA-256 of the 32 bytes, which admins compare with `bourse trust`.
func (p PublicKey) Fingerprint() identity.Fingerprint { return identity.FingerprintOf(p[:]) }

// String returns the text form.
func (p PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(p[:]) }

// MarshalText writes the text form.
func (p PublicKey) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text form as [ParsePublicKey] does.
func (p *PublicKey) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePublicKey(string(text))
	return err
}
