// Package join is how a cluster that nobody knows yet becomes one with a certificate.
//
// An operator makes a [Token] and hands it over by a way that they trust; the broker keeps the hash of its
// secret. The new cluster's agent sends a [Submission] over TLS that it verified by the pin in the token. The
// broker opens it ([Submission.Open]), asks its market whether this token still admits this [Applicant], and
// answers with a certificate. Nothing here has state: tokens and their use are in the market's journal.
package join

import (
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/bourse-dev/bourse/internal/identity"
)

const (
	tokenPrefix   = "bourse"
	idBytes       = 5
	secretBytes   = 32
	maxURL        = 512
	tokenExpected = "bourse.ID.SECRET.URL.PIN"
)

// ErrBadToken says that a text is not a token. It never repeats the text, which may be most of one.
var ErrBadToken = errors.New("join token is malformed: copy it whole")

var (
	idText   = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	tokenB64 = base64.RawURLEncoding
)

// Token is all that an agent needs to join: where the broker is, how to recognise it, and a secret that
// works once. It prints and logs without the secret; [Token.Text] is the real thing.
type Token struct {
	// ID names the token in lists and in the broker's records: 8 characters a-z, 2-7. Not secret.
	ID     string
	secret [secretBytes]byte
	// BrokerURL is https://HOST or https://HOST:PORT.
	BrokerURL string
	// Pin is the fingerprint of the public key of the broker's CA.
	Pin identity.Fingerprint
}

// NewToken makes a token for the broker at brokerURL whose CA has this pin. random is crypto/rand.Reader
// outside tests.
func NewToken(random io.Reader, brokerURL string, pin identity.Fingerprint) (Token, error) {
	if err := checkURL(brokerURL); err != nil {
		return Token{}, err
	}
	id := make([]byte, idBytes)
	token := Token{BrokerURL: brokerURL, Pin: pin}
	for _, part := range [][]byte{id, token.secret[:]} {
		if _, err := io.ReadFull(random, part); err != nil {
			return Token{}, fmt.Errorf("join token: %w", err)
		}
	}
	token.ID = idText.EncodeToString(id)
	return token, nil
}

// ParseToken reads what [Token.Text] wrote, and nothing else. Its error is [ErrBadToken].
func ParseToken(text string) (Token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 5 || parts[0] != tokenPrefix || len(text) > 2*maxURL {
		return Token{}, fmt.Errorf("%w: must be %s", ErrBadToken, tokenExpected)
	}
	id, idErr := idText.DecodeString(parts[1])
	secret, secretErr := tokenB64.DecodeString(parts[2])
	brokerURL, urlErr := tokenB64.DecodeString(parts[3])
	pin, pinErr := tokenB64.DecodeString(parts[4])
	switch {
	case idErr != nil || len(id) != idBytes:
		return Token{}, fmt.Errorf("%w: its ID", ErrBadToken)
	case secretErr != nil || len(secret) != secretBytes:
		return Token{}, fmt.Errorf("%w: its secret", ErrBadToken)
	case urlErr != nil || checkURL(string(brokerURL)) != nil:
		return Token{}, fmt.Errorf("%w: its URL", ErrBadToken)
	case pinErr != nil || len(pin) != len(identity.Fingerprint{}):
		return Token{}, fmt.Errorf("%w: its pin", ErrBadToken)
	}
	token := Token{ID: parts[1], secret: [secretBytes]byte(secret),
		BrokerURL: string(brokerURL), Pin: identity.Fingerprint(pin)}
	if token.Text() != text { // line breaks and spare bits, which decoders let pass
		return Token{}, fmt.Errorf("%w: must be %s", ErrBadToken, tokenExpected)
	}
	return token, nil
}

// Text is the token as a person pastes it: bourse.ID.SECRET.URL.PIN, the last three in base64url. The pin
// stands last because its length is fixed: a token that was cut anywhere is recognised.
func (t Token) Text() string {
	return strings.Join([]string{tokenPrefix, t.ID, t.Secret(),
		tokenB64.EncodeToString([]byte(t.BrokerURL)), tokenB64.EncodeToString(t.Pin[:])}, ".")
}

// Secret is what the agent shows to the broker, over pinned TLS only.
func (t Token) Secret() string { return tokenB64.EncodeToString(t.secret[:]) }

// SecretHash is what the broker keeps of the token.
func (t Token) SecretHash() identity.Fingerprint { return SecretHash(t.Secret()) }

// SecretHash hashes a secret as it was shown. The secret is 256 random bits: there is nothing to slow down.
func SecretHash(secret string) identity.Fingerprint { return identity.FingerprintOf([]byte(secret)) }

// String names the token without its secret.
func (t Token) String() string { return "join token " + t.ID }

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || len(text) > maxURL || text != "https://"+u.Host {
		return fmt.Errorf("broker URL %.128q: must be https://HOST[:PORT] and nothing else", text)
	}
	return nil
}
