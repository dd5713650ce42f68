package clusterkey

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/go-jose/go-jose/v4"
)

const (
	typePrefix = "bourse/"
	typeSuffix = "+jws"
)

var kindPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// Header is the header of a signed document.
type Header struct {
	// Kind of document, as given to [Key.Sign]: lower case, digits and dashes ("assignment").
	Kind string
	// Key is the fingerprint of the signer's public key.
	Key identity.Fingerprint
}

// rawHeader has its fields in the order of RFC 8785.
type rawHeader struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	Typ string `json:"typ"`
}

// Peek reads the header of a document without verifying it, to find the key to [Verify] it with.
// Errors: [ErrTooLarge], [ErrMalformed], [ErrAlgorithm].
func Peek(document string) (Header, error) {
	if len(document) > maxDocument {
		return Header{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(document), maxDocument)
	}
	segment, _, _ := strings.Cut(document, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(segment)
	if err != nil {
		return Header{}, fmt.Errorf("%w: header is not base64url", ErrMalformed)
	}
	var raw rawHeader
	if err := json.Unmarshal(decoded, &raw); err != nil {
		return Header{}, fmt.Errorf("%w: header is not JSON", ErrMalformed)
	}
	if raw.Alg != string(jose.EdDSA) {
		return Header{}, fmt.Errorf("%w: %.32q", ErrAlgorithm, raw.Alg)
	}
	key, err := identity.ParseFingerprint(raw.Kid)
	if err != nil {
		return Header{}, fmt.Errorf("%w: kid: %w", ErrMalformed, err)
	}
	header := Header{Kind: strings.TrimSuffix(strings.TrimPrefix(raw.Typ, typePrefix), typeSuffix), Key: key}
	// One comparison rejects every header that we would not write: crit, jwk, b64, a second alg,
	// another order, white space.
	if want, err := header.segment(); err != nil || want != segment {
		return Header{}, fmt.Errorf("%w: header holds more, or something else, than alg, kid and typ in their one form",
			ErrMalformed)
	}
	return header, nil
}

// segment returns the first part of a document with this header.
func (h Header) segment() (string, error) {
	if !kindPattern.MatchString(h.Kind) {
		return "", fmt.Errorf("%w: %.64q must match %s", ErrKind, h.Kind, kindPattern)
	}
	raw, err := json.Marshal(rawHeader{Alg: string(jose.EdDSA), Kid: h.Key.String(), Typ: h.typ()})
	return base64.RawURLEncoding.EncodeToString(raw), err
}

func (h Header) typ() string { return typePrefix + h.Kind + typeSuffix }
