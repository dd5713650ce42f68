package identity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity"
)

const known = "SHA256:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0" // of "abc", FIPS 180-2

func TestFingerprintHasOneTextForm(t *testing.T) {
	if got := identity.FingerprintOf([]byte("abc")).String(); got != known {
		t.Fatalf("fingerprint of abc = %s, want %s", got, known)
	}
	for _, test := range []struct{ name, text string }{
		{"empty", ""},
		{"no prefix", strings.TrimPrefix(known, "SHA256:")},
		{"lower case prefix", strings.Replace(known, "SHA256", "sha256", 1)},
		{"MD5", strings.Replace(known, "SHA256", "MD5", 1)},
		{"cut", known[:len(known)-1]},
		{"longer", known + "A"},
		{"padded", known + "="},
		{"standard alphabet", strings.NewReplacer("-", "+", "_", "/").Replace(known)},
		{"spare bits set", known[:len(known)-1] + "1"},
		{"line break inside", known[:20] + "\n" + known[20:]},
		{"line break at the end", known + "\n"},
		{"space before", " " + known},
		{"only the prefix", "SHA256:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if f, err := identity.ParseFingerprint(test.text); err == nil {
				t.Errorf("%q was read as %s", test.text, f)
			}
		})
	}
}

func TestFingerprintInJSON(t *testing.T) {
	type record struct {
		Key  identity.Fingerprint `json:"key"`
		None identity.Fingerprint `json:"none,omitzero"`
	}
	text, err := json.Marshal(record{Key: identity.FingerprintOf([]byte("abc"))})
	if err != nil || string(text) != `{"key":"`+known+`"}` {
		t.Fatalf("marshalled %s, %v", text, err)
	}
	var back record
	if err := json.Unmarshal(text, &back); err != nil || back.Key.String() != known || !back.None.IsZero() {
		t.Errorf("read back %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"key":"abc"}`), &back); err == nil {
		t.Error("a key that is no fingerprint was read")
	}
}

func FuzzParseFingerprint(f *testing.F) {
	f.Add(known)
	f.Add("SHA256:")
	f.Add(known + "\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if print, err := identity.ParseFingerprint(text); err == nil && print.String() != text {
			t.Errorf("%q was accepted, but its text form is %q", text, print)
		}
	})
}
