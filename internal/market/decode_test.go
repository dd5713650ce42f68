package market

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

// What journals hold, of this version and of those before it, is read without reflection, and as with it.
func TestDecoder(t *testing.T) {
	journals, err := filepath.Glob("testdata/journal-*.jsonl")
	if err != nil || len(journals) == 0 {
		t.Fatal("no journals", err)
	}
	for _, path := range journals {
		for _, line := range bytes.Split(bytes.TrimSpace(read(t, path)), []byte("\n")) {
			var want Event
			if err := strictly(line, &want); err != nil {
				t.Fatal(err)
			}
			if got, ok := decodeReservationEvent(line); ok != (want.Reservation != nil) || ok && !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is read as %+v (%v)", path, line, got.Reservation, ok)
			}
		}
		golden := bytes.TrimSpace(read(t, path[:len(path)-len("jsonl")]+"state"))
		var want snapshot
		if err := strictly(golden, &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := decodeSnapshot(golden, inTurn); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the snapshot is read as %+v (%v)", path, got, ok)
		}
	}
}

// Whatever it is given, the decoder reads what reflection would, or leaves it alone.
func FuzzDecoder(f *testing.F) {
	journals, _ := filepath.Glob("testdata/journal-*.jsonl")
	for _, path := range journals {
		for _, line := range bytes.Split(bytes.TrimSpace(read(f, path)), []byte("\n")) {
			f.Add(line)
		}
	}
	for _, odd := range []string{
		`{"time":1,"reservation":{"id":"a","id":"b"}}`, `{"time":1,"reservation":{,"id":"a"}}`, `{"time":01,"reservation":{"id":"a"}}`,
		`{"time":1,"reservation":{"id":"a\"\\","pool":"\ud800"}}`, `{"time":-0,"reservation":{"id":"a","size":null,"next":[],"request":{"resources":{"cpu":"1","cpu":"2"}}}}`,
		`{"time":9223372036854775808,"reservation":{"id":"a"}}`, `{"time":1,"reservation":{"id":"a","size":[{"r":"cpu","v":1.5}]}} x`, `{"time":1,"reservation":{"id":"`,
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if farExponent.Match(data) { // a quantity like 1e999999999 takes for ever, whoever reads it
			return
		}
		if got, ok := decodeReservationEvent(data); ok {
			var want Event
			if err := strictly(data, &want); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v, want %+v, %v", data, got.Reservation, want.Reservation, err)
			}
		}
		if got, ok := decodeSnapshot(data, inTurn); ok {
			var want snapshot
			if err := strictly(data, &want); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v, want %+v, %v", data, got, want, err)
			}
		}
	})
}

var farExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

func read(t testing.TB, path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
