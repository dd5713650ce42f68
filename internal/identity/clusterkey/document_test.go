package clusterkey_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// order stands for the documents that the api package defines.
type order struct {
	Provider string           `json:"provider"`
	Memory   int64            `json:"memory"`
	End      string           `json:"end,omitempty"`
	Extra    map[string]int64 `json:"extra,omitempty"`
}

var anOrder = order{Provider: "milan", Memory: 8 << 30, End: "2026-01-02T03:04:05Z",
	Extra: map[string]int64{"nvidia.com/gpu": 2, "cpu": 4000}}

// seeded is a source of "randomness" that makes the same key each time.
type seeded byte

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s)
	}
	return len(p), nil
}

func newKey(t testing.TB, seed byte) *clusterkey.Key {
	t.Helper()
	key, err := clusterkey.New(seeded(seed))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, key *clusterkey.Key, payload any) string {
	t.Helper()
	document, err := key.Sign("assignment", payload)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestSignedDocumentIsRead(t *testing.T) {
	key := newKey(t, 1)
	document := sign(t, key, anOrder)
	var got order
	if err := clusterkey.Verify(document, "assignment", key.Public(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(anOrder, got); diff != "" {
		t.Error(diff)
	}
	header, err := clusterkey.Peek(document)
	if err != nil || header != (clusterkey.Header{Kind: "assignment", Key: key.Public().Fingerprint()}) {
		t.Errorf("peeked %+v, %v", header, err)
	}
	if again := sign(t, key, &anOrder); again != document {
		t.Errorf("the same payload made two documents:\n%s\n%s", document, again)
	}
	other := anOrder
	other.Memory++
	if clusterkey.Digest(sign(t, key, other)) == clusterkey.Digest(document) {
		t.Error("two documents have one digest")
	}
}

// The exact bytes are a protocol: documents are kept for years, and other programs make them.
func TestSpellingOfADocument(t *testing.T) {
	key := newKey(t, 1)
	parts := strings.Split(sign(t, key, order{Provider: "<é>", Memory: 1 << 53}), ".")
	if got, want := decode64(t, parts[0]), `{"alg":"EdDSA","kid":"`+key.Public().Fingerprint().String()+`","typ":"bourse/assignment+jws"}`; got != want {
		t.Errorf("header %s, want %s", got, want)
	}
	if got, want := decode64(t, parts[1]), `{"memory":9007199254740992,"provider":"<é>"}`; got != want {
		t.Errorf("payload %s, want %s", got, want)
	}
	if !ed25519.Verify(rawKey(key), []byte(parts[0]+"."+parts[1]), []byte(decode64(t, parts[2]))) {
		t.Error("signature is not Ed25519 over header.payload")
	}
}

func TestHostileDocuments(t *testing.T) {
	key, other := newKey(t, 1), newKey(t, 2)
	good := sign(t, key, anOrder)
	parts := strings.Split(good, ".")
	kid, otherKid := key.Public().Fingerprint().String(), other.Public().Fingerprint().String()
	header := func(alg, kid, typ, more string) string {
		return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":%q%s}`, alg, kid, typ, more)
	}
	plain := header("EdDSA", kid, "bourse/assignment+jws", "")
	payload := decode64(t, parts[1])
	// signed by the right key, with any content
	forge := func(header, payload string) string { return rawSign(t, 1, header, payload) }

	for _, test := range []struct {
		name, document string
		want           error
	}{
		{"empty", "", clusterkey.ErrMalformed},
		{"two parts", parts[0] + "." + parts[1], clusterkey.ErrMalformed},
		{"four parts", good + ".", clusterkey.ErrMalformed},
		{"no signature", parts[0] + "." + parts[1] + ".", clusterkey.ErrSignature},
		{"JSON serialization", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, clusterkey.ErrMalformed},
		{"alg none", encode(header("none", kid, "bourse/assignment+jws", "")) + "." + parts[1] + ".",
			clusterkey.ErrAlgorithm},
		{"HS256 keyed with the public key", hmacSign(key, header("HS256", kid, "bourse/assignment+jws", ""), payload),
			clusterkey.ErrAlgorithm},
		{"two algs", forge(`{"alg":"none","alg":"EdDSA","kid":"`+kid+`","typ":"bourse/assignment+jws"}`, payload), clusterkey.ErrMalformed},
		{"ALG", forge(`{"ALG":"EdDSA","kid":"`+kid+`","typ":"bourse/assignment+jws"}`, payload), clusterkey.ErrMalformed},
		{"another kind", forge(header("EdDSA", kid, "bourse/card+jws", ""), payload), clusterkey.ErrKind},
		{"not our typ", forge(header("EdDSA", kid, "JWT", ""), payload), clusterkey.ErrMalformed},
		{"no typ", forge(`{"alg":"EdDSA","kid":"`+kid+`"}`, payload), clusterkey.ErrMalformed},
		{"kid of another key", forge(header("EdDSA", otherKid, "bourse/assignment+jws", ""), payload), clusterkey.ErrKey},
		{"signed by another key under our kid", rawSign(t, 2, plain, payload), clusterkey.ErrSignature},
		{"kid is no fingerprint", forge(header("EdDSA", "milan", "bourse/assignment+jws", ""), payload),
			clusterkey.ErrMalformed},
		{"crit", forge(header("EdDSA", kid, "bourse/assignment+jws", `,"crit":["exp"],"exp":1`), payload),
			clusterkey.ErrMalformed},
		{"jwk", forge(header("EdDSA", kid, "bourse/assignment+jws", `,"jwk":{"kty":"OKP","crv":"Ed25519","x":"`+other.Public().String()+`"}`), payload), clusterkey.ErrMalformed},
		{"b64 false", forge(header("EdDSA", kid, "bourse/assignment+jws", `,"b64":false,"crit":["b64"]`), payload),
			clusterkey.ErrMalformed},
		{"header with spaces", forge(strings.ReplaceAll(plain, ",", ", "), payload), clusterkey.ErrMalformed},
		{"payload changed", parts[0] + "." + encode(strings.Replace(payload, "milan", "turin", 1)) + "." + parts[2],
			clusterkey.ErrSignature},
		{"line break in the payload", parts[0] + "." + parts[1][:8] + "\n" + parts[1][8:] + "." + parts[2],
			clusterkey.ErrNotCanonical},
		{"line break in the signature", good + "\n", clusterkey.ErrNotCanonical},
		{"line break in the header", good[:8] + "\n" + good[8:], clusterkey.ErrMalformed},
		{"payload with spaces", forge(plain, `{"memory": 1, "provider": "milan"}`), clusterkey.ErrNotCanonical},
		{"payload in another order", forge(plain, `{"provider":"milan","memory":1}`), clusterkey.ErrNotCanonical},
		{"number in another form", forge(plain, `{"memory":1.0,"provider":"milan"}`), clusterkey.ErrNotCanonical},
		{"escaped text", forge(plain, `{"memory":1,"provider":"m\u0069lan"}`), clusterkey.ErrNotCanonical},
		{"not UTF-8", forge(plain, "{\"memory\":1,\"provider\":\"\xff\"}"), clusterkey.ErrNotCanonical},
		{"duplicate key", forge(plain, `{"memory":1,"memory":2,"provider":"milan"}`), clusterkey.ErrNotCanonical},
		{"duplicate nested key", forge(plain, `{"extra":{"a":1,"a":2},"memory":1,"provider":"milan"}`), clusterkey.ErrNotCanonical},
		{"trailing data", forge(plain, payload+"{}"), clusterkey.ErrNotCanonical},
		{"not JSON", forge(plain, "hello"), clusterkey.ErrNotCanonical},
		{"empty payload", forge(plain, ""), clusterkey.ErrNotCanonical},
		{"null", forge(plain, "null"), clusterkey.ErrPayload},
		{"list", forge(plain, "[]"), clusterkey.ErrPayload},
		{"unknown field", forge(plain, `{"memory":1,"price":0,"provider":"milan"}`), clusterkey.ErrPayload},
		{"known field in another case", forge(plain, `{"Provider":"turin","memory":1,"provider":"milan"}`), clusterkey.ErrPayload},
		{"text for a number", forge(plain, `{"memory":"1","provider":"milan"}`), clusterkey.ErrPayload},
		{"fraction for an integer", forge(plain, `{"memory":0.5,"provider":"milan"}`), clusterkey.ErrPayload},
		{"integer out of range", forge(plain, `{"memory":1e+30,"provider":"milan"}`), clusterkey.ErrPayload},
		{"endless depth", forge(plain, `{"extra":`+strings.Repeat("[", 20000)), clusterkey.ErrNotCanonical},
		{"payload over the limit", forge(plain, `{"memory":1,"provider":"`+strings.Repeat("x", clusterkey.MaxPayload)+`"}`), clusterkey.ErrTooLarge},
		{"everything over the limit", strings.Repeat("A", 1<<20), clusterkey.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := order{Provider: "untouched"}
			err := clusterkey.Verify(test.document, "assignment", key.Public(), &got)
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if got.Provider != "untouched" {
				t.Errorf("refused, but decoded %+v", got)
			}
		})
	}
}

func TestVerifyNeedsSomewhereToDecode(t *testing.T) {
	key := newKey(t, 1)
	for _, into := range []any{nil, order{}, (*order)(nil)} {
		if err := clusterkey.Verify(sign(t, key, anOrder), "assignment",
			key.Public(), into); !errors.Is(err, clusterkey.ErrPayload) {
			t.Errorf("into %#v: %v", into, err)
		}
	}
}

func TestSignRefusesWhatWouldBeReadDifferently(t *testing.T) {
	key := newKey(t, 1)
	for _, test := range []struct {
		name    string
		kind    string
		payload any
		want    error
	}{
		{"integer beyond 2^53", "assignment", order{Memory: 1<<53 + 1}, clusterkey.ErrPayload},
		{"text that is not UTF-8", "assignment", order{Provider: "\xff"}, clusterkey.ErrPayload},
		{"nothing", "assignment", nil, clusterkey.ErrPayload},
		{"nil pointer", "assignment", (*order)(nil), clusterkey.ErrPayload},
		{"no object", "assignment", []int{1}, clusterkey.ErrPayload},
		{"what JSON cannot hold", "assignment", map[string]any{"f": func() {}}, clusterkey.ErrPayload},
		{"too much", "assignment", order{Provider: strings.Repeat("x", clusterkey.MaxPayload)}, clusterkey.ErrTooLarge},
		{"no kind", "", anOrder, clusterkey.ErrKind},
		{"kind that breaks the typ", "a/b", anOrder, clusterkey.ErrKind},
	} {
		t.Run(test.name, func(t *testing.T) {
			if document, err := key.Sign(test.kind, test.payload); !errors.Is(err, test.want) {
				t.Errorf("signed %.80q, %v; want %v", document, err, test.want)
			}
		})
	}
}

func TestAnythingSignedIsReadAndNoByteOfItCanChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, err := clusterkey.New(seeded(rapid.Byte().Draw(t, "seed")))
		if err != nil {
			t.Fatal(err)
		}
		payload := order{
			Provider: rapid.String().Draw(t, "provider"),
			Memory:   rapid.Int64Range(-1<<53, 1<<53).Draw(t, "memory"),
			Extra:    rapid.MapOfN(rapid.String(), rapid.Int64Range(-1<<53, 1<<53), 1, 4).Draw(t, "extra"),
		}
		document, err := key.Sign("end", payload)
		if err != nil {
			t.Fatal(err)
		}
		var got order
		if err := clusterkey.Verify(document, "end", key.Public(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(payload, got); diff != "" {
			t.Fatal(diff)
		}
		changed := []byte(document)
		changed[rapid.IntRange(0, len(changed)-1).Draw(t, "at")] ^= rapid.ByteRange(1, 255).Draw(t, "flip")
		if err := clusterkey.Verify(string(changed), "end", key.Public(), &got); err == nil {
			t.Fatalf("accepted\n%s\nwhich differs from\n%s", changed, document)
		}
	})
}

func FuzzVerify(f *testing.F) {
	key := newKey(f, 1)
	good := sign(f, key, anOrder)
	f.Add(good)
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Add(rawSign(f, 1, "{}", "null"))
	f.Fuzz(func(t *testing.T, document string) {
		var got order
		if clusterkey.Verify(document, "assignment", key.Public(), &got) == nil && sign(t, key, got) != document {
			t.Errorf("accepted what we would not have written: %q", document)
		}
	})
}

// FuzzPayload lets the fuzzer behind the signature: what a hostile member can sign itself.
func FuzzPayload(f *testing.F) {
	key := newKey(f, 1)
	header := decode64(f, strings.Split(sign(f, key, anOrder), ".")[0])
	f.Add(`{"memory":1,"provider":"milan"}`)
	f.Add(`{"extra":{"a":1},"memory":1,"provider":null}`)
	f.Fuzz(func(t *testing.T, payload string) {
		var got order
		if clusterkey.Verify(rawSign(t, 1, header, payload), "assignment", key.Public(), &got) != nil {
			return
		}
		if _, err := key.Sign("assignment", got); err != nil && !errors.Is(err, clusterkey.ErrPayload) {
			t.Errorf("read %q, but cannot sign it: %v", payload, err)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	key := newKey(b, 1)
	for b.Loop() {
		if _, err := key.Sign("assignment", anOrder); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	key := newKey(b, 1)
	document := sign(b, key, anOrder)
	for b.Loop() {
		var got order
		if err := clusterkey.Verify(document, "assignment", key.Public(), &got); err != nil {
			b.Fatal(err)
		}
	}
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func decode64(t testing.TB, text string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func rawKey(key *clusterkey.Key) ed25519.PublicKey {
	public := key.Public()
	return public[:]
}

// rawSign makes a JWS without any of the care that Sign takes, with the key of newKey(t, seed).
func rawSign(t testing.TB, seed byte, header, payload string) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(seeded(seed))
	if err != nil {
		t.Fatal(err)
	}
	input := encode(header) + "." + encode(payload)
	return input + "." + encode(string(ed25519.Sign(private, []byte(input))))
}

func hmacSign(key *clusterkey.Key, header, payload string) string {
	mac := hmac.New(sha256.New, rawKey(key))
	input := encode(header) + "." + encode(payload)
	mac.Write([]byte(input))
	return input + "." + encode(string(mac.Sum(nil)))
}
