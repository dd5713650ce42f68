package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

const fingerprintPrefix = "SHA256:"

// Fingerprint is a SHA-256: of a cluster's public key, of the public key in a certificate, of a token's
// secret or of a signed document. Its text form, also in JSON, is "SHA256:" and 43 characters of base64url
// without padding. A double click selects all 50 characters, and they are safe in paths and shells. The zero
// value means "none".
type Fingerprint [sha256.Size]byte

// FingerprintOf hashes data.
func FingerprintOf(data []byte) Fingerprint { return sha256.Sum256(data) }

// ParseFingerprint reads only the text form. Other paddings, alphabets and spaces are errors, so that
// different texts are never the same key.
func ParseFingerprint(text string) (Fingerprint, error) {
	var f Fingerprint
	encoded, ok := strings.CutPrefix(text, fingerprintPrefix)
	if !ok {
		return f, fmt.Errorf("fingerprint %.64q does not start with %q", text, fingerprintPrefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	// The decoder skips line breaks and ignores spare bits. Only our own spelling is accepted.
	if err != nil || len(raw) != len(f) || base64.RawURLEncoding.EncodeToString(raw) != encoded {
		return f, fmt.Errorf("fingerprint %.64q is not %q and 43 characters of base64url: copy it whole",
			text, fingerprintPrefix)
	}
	return Fingerprint(raw), nil
}

// String returns the text form.
func (f Fingerprint) String() string {
	return fingerprintPrefix + base64.RawURLEncoding.EncodeToString(f[:])
}

// IsZero reports whether there is no fingerprint.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// MarshalText writes the text form.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the text form as [ParseFingerprint] does.
func (f *Fingerprint) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFingerprint(string(text))
	return err
}
