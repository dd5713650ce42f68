package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// What is on disks must be readable for ever: these values never change.
func TestChainIsStable(t *testing.T) {
	head := Head{Lineage: "LINEAGE", Revision: 41}
	encoded, err := Encode(nil, [][]byte{[]byte("a"), []byte("bc")})
	if err != nil || string(encoded) != "\x00\x00\x00\x01a\x00\x00\x00\x02bc" {
		t.Fatalf("encoded %q, %v", encoded, err)
	}
	next := head.Next(2, encoded)
	for what, hashes := range map[string][2]string{
		"next": {next.Hash.String(), "5b9fa1ef9a11c0efb46d3899f9b08e8e592a4c19c0fb93e638ad4356cbdc67a1"},
		"seal": {next.Seal([]byte("state")).String(), "08cb8f1a87adb59c44f37fd6a96d4f73ec91ce7efd2c67cc7afe74fcb5bc7830"},
	} {
		if hashes[0] != hashes[1] {
			t.Errorf("%s is %s, was %s", what, hashes[0], hashes[1])
		}
	}
	if next.Lineage != head.Lineage || next.Revision != 43 {
		t.Errorf("two events after %v: %v", head, next)
	}
}

// Each part of a head's past changes its hash.
func TestChainBinds(t *testing.T) {
	begin := Genesis()
	other := begin
	other.Hash[0] ^= 1
	later := begin
	later.Revision++
	seen := map[Hash]string{}
	for name, hash := range map[string]Hash{
		"genesis":             begin.Hash,
		"another genesis":     Genesis().Hash,
		"a batch":             begin.Next(1, []byte("abc")).Hash,
		"another batch":       begin.Next(1, []byte("abd")).Hash,
		"another past":        other.Next(1, []byte("abc")).Hash,
		"a later revision":    later.Next(1, []byte("abc")).Hash,
		"no state":            begin.Seal(nil),
		"a state":             begin.Seal([]byte("abc")),
		"elsewhere":           other.Seal([]byte("abc")),
		"at a later revision": later.Seal([]byte("abc")),
	} {
		if twin, found := seen[hash]; found {
			t.Errorf("%s and %s have the same hash", name, twin)
		}
		seen[hash] = name
	}
}

func TestHashIsText(t *testing.T) {
	hash := Genesis().Hash
	encoded, err := json.Marshal(hash)
	var back Hash
	if err != nil || json.Unmarshal(encoded, &back) != nil || back != hash {
		t.Errorf("%v became %s, then %v, %v", hash, encoded, back, err)
	}
	for _, text := range []string{"", "00", strings.Repeat("x", 64), strings.Repeat("0", 66)} {
		if err := back.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q became a hash", text)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, events := range map[string][][]byte{
		"nothing": nil, "an empty event": {[]byte("a"), {}}, "too much": {make([]byte, MaxBatch-3)},
	} {
		if _, err := Encode(nil, events); !errors.Is(err, ErrInvalid) {
			t.Errorf("encode %s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := Encode(nil, [][]byte{make([]byte, MaxBatch-4)}); err != nil {
		t.Errorf("encode the most: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01a\x00\x00\x00\x02bc"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xffa"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		events, err := Decode(encoded)
		if err != nil {
			return
		}
		if again, err := Encode(nil, events); err != nil || !bytes.Equal(again, encoded) {
			t.Errorf("decoded to %q, which encodes to %q, %v", events, again, err)
		}
	})
}
