package clusterkey

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/go-jose/go-jose/v4"
	"github.com/gowebpki/jcs"
)

// MaxPayload is the largest size of a document's canonical JSON, in bytes.
const MaxPayload = 64 << 10

// maxDocument leaves room for the header, the signature and base64.
const maxDocument = MaxPayload*4/3 + 1<<10

// Errors of documents. The wrapped text says more.
var (
	ErrTooLarge     = errors.New("signed document is too large")
	ErrMalformed    = errors.New("signed document is malformed")
	ErrAlgorithm    = errors.New("signed document is not signed with EdDSA")
	ErrKind         = errors.New("signed document is of another kind")
	ErrKey          = errors.New("signed document is not by the expected key")
	ErrSignature    = errors.New("signed document has a wrong signature")
	ErrNotCanonical = errors.New("signed document is not in its canonical form")
	ErrPayload      = errors.New("signed document does not hold what its kind says")
)

// Sign makes a signed document of payload, a type that encoding/json restores from its own output. A number
// that canonical JSON cannot hold exactly (an integer beyond 2^53) or a text that is not UTF-8 is
// [ErrPayload]. More than [MaxPayload] is [ErrTooLarge].
func (k *Key) Sign(kind string, payload any) (string, error) {
	body, err := canonical(payload)
	if err != nil {
		return "", err
	}
	header := Header{Kind: kind, Key: k.public.Fingerprint()}
	if _, err := header.segment(); err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(header.typ())).WithHeader("kid", header.Key.String())
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: k.private}, options)
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", kind, err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", kind, err)
	}
	return signed.CompactSerialize()
}

// Verify checks that the holder of pub signed document as this kind, and decodes its payload into the value
// that into points to. into is set only if there is no error.
//
// Errors: [ErrTooLarge], [ErrMalformed], [ErrAlgorithm], [ErrKind], [ErrKey], [ErrSignature]. If the
// signature is correct: [ErrNotCanonical], and [ErrPayload] for a field that is unknown, that differs from a
// known one in case, or whose value has another type.
func Verify(document, kind string, pub PublicKey, into any) error {
	header, err := Peek(document)
	if err != nil {
		return err
	}
	if header.Kind != kind {
		return fmt.Errorf("%w: %q instead of %q", ErrKind, header.Kind, kind)
	}
	if header.Key != pub.Fingerprint() {
		return fmt.Errorf("%w: by %s instead of %s", ErrKey, header.Key, pub.Fingerprint())
	}
	if err := pub.checkStrength(); err != nil {
		return err
	}
	signed, err := jose.ParseSignedCompact(document, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	payload, err := signed.Verify(ed25519.PublicKey(pub[:]))
	if err != nil {
		return fmt.Errorf("%w: not made by %s, or changed since", ErrSignature, header.Key)
	}
	// base64 decoders skip line breaks and spare bits, so one document could have several digests.
	if again, err := signed.CompactSerialize(); err != nil || again != document {
		return fmt.Errorf("%w: base64url is not in its one form", ErrNotCanonical)
	}
	if err := checkCanonical(payload); err != nil {
		return err
	}
	return decode(payload, into)
}

// Digest identifies a document. A document that answers another one contains its digest.
func Digest(document string) identity.Fingerprint { return identity.FingerprintOf([]byte(document)) }

// canonical returns the canonical JSON of payload, after checking that it decodes to payload again.
func canonical(payload any) ([]byte, error) {
	if payload == nil {
		return nil, fmt.Errorf("%w: nil", ErrPayload)
	}
	plain, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	body, err := jcs.Transform(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	if len(body) > MaxPayload {
		return nil, fmt.Errorf("%w: payload of %d bytes, at most %d", ErrTooLarge, len(body), MaxPayload)
	}
	restored := reflect.New(reflect.TypeOf(payload)).Interface()
	if err := decode(body, restored); err != nil {
		return nil, err
	}
	if again, err := json.Marshal(restored); err != nil || !bytes.Equal(again, plain) {
		return nil, fmt.Errorf("%w: %T does not survive canonical JSON: keep integers within 2^53 and text in UTF-8",
			ErrPayload, payload)
	}
	return body, nil
}

// checkCanonical also rejects duplicate keys and trailing data.
func checkCanonical(payload []byte) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: payload of %d bytes, at most %d", ErrTooLarge, len(payload), MaxPayload)
	}
	same, err := jcs.Transform(payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCanonical, err)
	}
	if !bytes.Equal(same, payload) {
		return fmt.Errorf("%w: payload differs from its RFC 8785 form", ErrNotCanonical)
	}
	return nil
}

// decode is stricter than encoding/json: it rejects unknown fields and names with another case, because
// "End" would overwrite "end".
func decode(claims []byte, into any) error {
	if claims[0] != '{' { // null would decode into anything, without effect
		return fmt.Errorf("%w: payload is not a JSON object", ErrPayload)
	}
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("%w: cannot decode into %T", ErrPayload, into)
	}
	fresh := reflect.New(target.Type().Elem())
	if err := read(claims, fresh.Interface(), payload.Exact); err != nil {
		return err
	}
	if err := checkSpelling(claims, fresh.Interface()); err != nil {
		return err
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// checkSpelling checks that a payload is spelled as we would encode its value, so that one value has one
// document. Quantities and times could otherwise have any number of digits. A document of an older version
// must stay valid: a new field of a signed type must be left out when empty (omitempty, omitzero).
func checkSpelling(payload []byte, value any) error {
	plain, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPayload, err)
	}
	again, err := jcs.Transform(plain)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPayload, err)
	}
	if !bytes.Equal(again, payload) {
		return fmt.Errorf("%w: a value in it is spelled in another way than ours", ErrNotCanonical)
	}
	return nil
}
