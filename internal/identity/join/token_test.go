package join_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/join"
)

var pin = identity.FingerprintOf([]byte("the CA's key"))

func newToken(t testing.TB) join.Token {
	t.Helper()
	token, err := join.NewToken(rand.Reader, "https://broker.example:8443", pin)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokenSurvivesPasting(t *testing.T) {
	token := newToken(t)
	back, err := join.ParseToken(token.Text())
	if err != nil || back != token {
		t.Errorf("read %+v, %v", back, err)
	}
	if other := newToken(t); other.ID == token.ID || other.Secret() == token.Secret() {
		t.Error("two tokens are alike")
	}
}

func TestTokenWithAnAddressOfIPv6(t *testing.T) {
	for url, good := range map[string]bool{
		"https://[2001:db8::1]:7443": true, "https://[::1]": true,
		"https://2001:db8::1:7443": false, "https://[::1": false, "https://[]:7443": false, "https://[fe80::1%25eth0]:7443": false,
	} {
		token, err := join.NewToken(rand.Reader, url, pin)
		if (err == nil) != good {
			t.Errorf("%s: %v", url, err)
		}
		if back, err := join.ParseToken(token.Text()); good && (err != nil || back.BrokerURL != url) {
			t.Errorf("%s: read %+v, %v", url, back, err)
		}
	}
}

func TestTokenCutAnywhereIsRecognised(t *testing.T) {
	text := newToken(t).Text()
	for i := range len(text) {
		if token, err := join.ParseToken(text[:i]); !errors.Is(err, join.ErrBadToken) {
			t.Errorf("cut after %d of %d: %v, %v", i, len(text), token, err)
		}
	}
}

func TestHostileTokens(t *testing.T) {
	good := strings.Split(newToken(t).Text(), ".")
	with := func(i int, part string) string {
		parts := append([]string(nil), good...)
		parts[i] = part
		return strings.Join(parts, ".")
	}
	withURL := func(u string) string { return with(3, base64.RawURLEncoding.EncodeToString([]byte(u))) }
	for name, text := range map[string]string{
		"empty":             "",
		"another prefix":    with(0, "Bourse"),
		"six parts":         with(4, good[4]) + ".x",
		"upper case ID":     with(1, strings.ToUpper(good[1])),
		"long ID":           with(1, good[1]+good[1]),
		"short secret":      with(2, good[2][:20]),
		"padded secret":     with(2, good[2]+"="),
		"space at the end":  strings.Join(good, ".") + " ",
		"line break inside": with(2, good[2][:20]+"\n"+good[2][20:]),
		"huge":              with(3, strings.Repeat("A", 1<<20)),
		"http":              withURL("http://broker.example"),
		"no host":           withURL("https://"),
		"only a port":       withURL("https://:443"),
		"user":              withURL("https://eve@broker.example"),
		"path":              withURL("https://broker.example/x"),
		"slash":             withURL("https://broker.example/"),
		"query":             withURL("https://broker.example?x"),
		"fragment":          withURL("https://broker.example#"),
		"control character": withURL("https://broker.example\x00"),
		"long URL":          withURL("https://" + strings.Repeat("a", 600)),
	} {
		t.Run(name, func(t *testing.T) {
			if token, err := join.ParseToken(text); !errors.Is(err, join.ErrBadToken) {
				t.Errorf("read as %v, %v", token, err)
			}
		})
	}
}

func TestSecretStaysOutOfPrintAndErrors(t *testing.T) {
	token := newToken(t)
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(verb, token); got != "join token "+token.ID {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	_, err := join.ParseToken(token.Text() + "x")
	if err == nil || strings.Contains(err.Error(), token.Secret()[:8]) {
		t.Errorf("error %v", err)
	}
}

func TestNewTokenNeedsARealURL(t *testing.T) {
	for _, url := range []string{"", "broker.example", "http://broker.example", "https://broker.example/path"} {
		if _, err := join.NewToken(rand.Reader, url, pin); err == nil {
			t.Errorf("made a token for %q", url)
		}
	}
	if _, err := join.NewToken(strings.NewReader("short"), "https://broker.example", pin); err == nil {
		t.Error("made a token without randomness")
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(newToken(f).Text())
	f.Add("bourse....")
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := join.ParseToken(text); err == nil && token.Text() != text {
			t.Errorf("%q was accepted, but is written %q", text, token.Text())
		}
	})
}
