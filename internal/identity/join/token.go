// Package join is how an unknown cluster gets a certificate.
//
// An operator makes a [Token] and passes it on confidentially. The broker keeps the hash of its secret. The
// new cluster's agent sends a [Submission] over TLS that it verifies by the pin in the token. The broker
// opens it ([Submission.Open]), asks its market whether the token admits this [Applicant], and answers with
// a certificate. The package has no state: tokens and their use are in the market's journal.
package join

import (
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
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

// ErrBadToken means that a text is not a token. The error does not contain the text, which may be secret.
var ErrBadToken = errors.New("join token is malformed: copy it whole")

var (
	idText   = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	tokenB64 = base64.RawURLEncoding
)

// Token contains all that an agent needs to join: the broker's address, its identity, and a secret that
// works once. It prints and logs without the secret; [Token.Text] has it.
type Token struct {
	// ID identifies the token in lists and in the broker's records: 8 characters a-z, 2-7. Not secret.
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

// ParseToken reads only the output of [Token.Text]. Error: [ErrBadToken].
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
	if token.Text() != text { // decoders accept line breaks and spare bits
		return Token{}, fmt.Errorf("%w: must be %s", ErrBadToken, tokenExpected)
	}
	return token, nil
}

// Text returns the token as users paste it: bourse.ID.SECRET.URL.PIN, the last three in base64url. The pin
// is last because its length is fixed, so that a truncated token is detected.
func (t Token) Text() string {
	return strings.Join([]string{tokenPrefix, t.ID, t.Secret(),
		tokenB64.EncodeToString([]byte(t.BrokerURL)), tokenB64.EncodeToString(t.Pin[:])}, ".")
}

// Secret returns the secret that the agent sends to the broker, over pinned TLS only.
func (t Token) Secret() string { return tokenB64.EncodeToString(t.secret[:]) }

// SecretHash returns the part of the token that the broker keeps.
func (t Token) SecretHash() identity.Fingerprint { return SecretHash(t.Secret()) }

// SecretHash hashes a secret. It need not be slow, because the secret is 256 random bits.
func SecretHash(secret string) identity.Fingerprint { return identity.FingerprintOf([]byte(secret)) }

// String identifies the token without its secret.
func (t Token) String() string { return "join token " + t.ID }

// CheckURL reports what is wrong with the URL of a broker, which must be https://HOST or https://HOST:PORT.
func CheckURL(text string) error { return checkURL(text) }

// LocalReach returns from where alone the host of a URL can be reached: "from the broker's machine", "in the
// broker's cluster", or empty for a name that does not say so.
func LocalReach(brokerURL string) string {
	u, err := url.Parse(brokerURL)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	switch ip, err := netip.ParseAddr(host); {
	case err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified()), host == "localhost", strings.HasSuffix(host, ".localhost"):
		return "from the broker's machine"
	case strings.HasSuffix(host, ".svc"), strings.HasSuffix(host, ".cluster.local"):
		return "in the broker's cluster"
	}
	return ""
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || len(text) > maxURL || text != "https://"+u.Host {
		return fmt.Errorf("broker URL %.128q: must be https://HOST[:PORT] and nothing else", text)
	}
	return nil
}
