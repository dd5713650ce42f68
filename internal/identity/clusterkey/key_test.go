package clusterkey_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
)

func TestKeySurvivesPEM(t *testing.T) {
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	back, err := clusterkey.ParsePEM(text)
	if err != nil {
		t.Fatal(err)
	}
	if back.Public() != key.Public() || sign(t, back, anOrder) != sign(t, key, anOrder) {
		t.Error("another key came back")
	}
}

func TestParsePEMRefusesOtherKeys(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"empty":      nil,
		"not PEM":    []byte("key"),
		"P-256":      pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"other type": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		"broken":     pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]}),
	} {
		t.Run(name, func(t *testing.T) {
			if key, err := clusterkey.ParsePEM(text); err == nil {
				t.Errorf("read %s", key)
			}
		})
	}
}

func TestKeyPrintsAsFingerprint(t *testing.T) {
	key := newKey(t, 1)
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if got, want := fmt.Sprintf(verb, key), "cluster key "+key.Public().Fingerprint().String(); got != want {
			t.Errorf("%s prints %s, want %s", verb, got, want)
		}
	}
}

func TestNewNeedsEnoughRandomness(t *testing.T) {
	if key, err := clusterkey.New(strings.NewReader("short")); err == nil {
		t.Errorf("made %s", key)
	}
}

func TestPublicKeyHasOneTextForm(t *testing.T) {
	text := newKey(t, 1).Public().String()
	if back, err := clusterkey.ParsePublicKey(text); err != nil || back.String() != text {
		t.Fatalf("read %s as %s, %v", text, back, err)
	}
	for _, bad := range []string{"", text[1:], text + "A", text + "=",
		text[:9] + "\n" + text[9:], strings.Repeat("!", 43)} {
		if key, err := clusterkey.ParsePublicKey(bad); err == nil {
			t.Errorf("%q was read as %s", bad, key)
		}
	}
}

// With a point of small order as public key, R = identity and S = 0 verify for some or all messages, and
// crypto/ed25519 agrees: anyone could sign as the owner of an unset key.
func TestWeakKeysVerifyNothing(t *testing.T) {
	for _, y := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000", // the zero value
		"0100000000000000000000000000000000000000000000000000000000000000", // the identity
		"0100000000000000000000000000000000000000000000000000000000000080",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	} {
		raw, err := hex.DecodeString(y)
		if err != nil {
			t.Fatal(err)
		}
		weak := clusterkey.PublicKey(raw)
		forged, found := forge(weak)
		if !found {
			t.Fatalf("%s: could not forge for it: not weak?", y)
		}
		var got order
		if err := clusterkey.Verify(forged, "assignment", weak, &got); !errors.Is(err, clusterkey.ErrKey) {
			t.Errorf("%s: forged document gives %v", y, err)
		}
		if _, err := clusterkey.ParsePublicKey(weak.String()); !errors.Is(err, clusterkey.ErrKey) {
			t.Errorf("%s: was read, %v", y, err)
		}
	}
}

// forge signs without a key, trying payloads until the hash suits the order of the point.
func forge(weak clusterkey.PublicKey) (document string, found bool) {
	signature := make([]byte, ed25519.SignatureSize)
	signature[0] = 1 // R = identity, S = 0
	header := `{"alg":"EdDSA","kid":"` + weak.Fingerprint().String() + `","typ":"bourse/assignment+jws"}`
	for memory := range 200 {
		input := encode(header) + "." + encode(fmt.Sprintf(`{"memory":%d,"provider":"milan"}`, memory))
		if ed25519.Verify(weak[:], []byte(input), signature) {
			return input + "." + encode(string(signature)), true
		}
	}
	return "", false
}
