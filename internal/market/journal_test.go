package market_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

var record = flag.String("record", "", "write the journal of today's events as testdata/journal-NAME")

// What any version ever wrote must be read for ever, to the same state. When events gain a field, record
// another journal; never change one that is there.
func TestJournalsOfOlderVersions(t *testing.T) {
	if *record != "" {
		writeFile(t, "journal-"+*record+".jsonl", append(bytes.Join(story(t), []byte("\n")), '\n'))
	}
	journals, err := filepath.Glob("testdata/journal-*.jsonl")
	if err != nil || len(journals) == 0 {
		t.Fatalf("no journals: %v", err)
	}
	for _, path := range journals {
		journal, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := market.New("")
		for line := range bytes.Lines(journal) {
			s.Apply(decode(t, line))
		}
		got, err := market.Encoded(s)
		if err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(path, "jsonl") + "state"
		if *record != "" && strings.Contains(path, *record) {
			writeFile(t, filepath.Base(golden), append(got, '\n'))
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if unescaped(got)+"\n" != unescaped(want) {
			t.Errorf("%s leads to\n%s\nwant\n%s", path, got, want)
		}
		restored := market.New("")
		if err := restored.Restore(want); err != nil {
			t.Fatalf("%s: %v", golden, err)
		}
		if again, err := market.Encoded(restored); err != nil || unescaped(again)+"\n" != unescaped(want) {
			t.Errorf("%s is restored as\n%s %v\nwant\n%s", golden, again, err, want)
		}
	}
}

// unescaped is a state without the escapes of HTML that versions before 2026-11-23 wrote.
func unescaped(state []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(state))
}

// Together, the journals of older versions use every field of today's events. If you add a field, record another
// journal that uses it.
func TestJournalsKnowEveryField(t *testing.T) {
	journals, err := filepath.Glob("testdata/journal-*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, path := range journals {
		journal, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, journal...)
	}
	for _, name := range fieldsOf(reflect.TypeFor[market.Event](), map[reflect.Type]bool{}) {
		if !bytes.Contains(all, []byte(`"`+name+`":`)) {
			t.Errorf("no journal in testdata says anything of %q: run this package's tests with -record and a new name", name)
		}
	}
}

// fieldsOf are the names of all fields in a type, as JSON.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool) (names []string) {
	if seen[t] {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return fieldsOf(t.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name != "" {
			names = append(names, name)
		}
		names = append(names, fieldsOf(f.Type, seen)...)
	}
	return names
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("testdata", name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadable(t *testing.T) {
	for _, data := range []string{
		``, `null`, `[]`, `{}`, `{"time":1}`, `{"time":1,"reservation":{}}`, `{"time":1,"member":{},"token":{}}`,
		`{"time":1,"forget":{}}{}`, `{"time":1,"forget":{},"novelty":1}`, `{"time":1,"member":{"novelty":1}}`, `{"time":"noon","forget":{}}`,
	} {
		if e, err := market.NewEventReader().Read([]byte(data)); err == nil {
			t.Errorf("event %s is read as %s", data, dump(e))
		}
	}
	for _, data := range []string{``, `[]`, `{"members":[null]}`,
		`{"tokens":[null]}`, `{"reservations":[null]}`, `{"reservations":[{}]}`, `{"novelties":[]}`, `{}{}`} {
		s := market.New("")
		if err := s.Restore([]byte(data)); err == nil {
			t.Errorf("snapshot %s is read as %s", data, dump(s.All()))
		}
	}
}

// A backup that is put back at any event is a market that works.
func TestEveryPrefixOfAJournalIsAMarket(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("a", 2)
	d.signed("b", 2)
	d.must(market.Refuse{ID: "b", By: "rome", Generation: 1})
	d.must(market.Release{ID: "a", By: "rome", Generation: 1, Document: "end"})
	d.must(market.Free{ID: "a", Provider: "rome"})
	for keep := len(d.journal); keep >= 3; keep-- {
		d.restart(keep)
		d.check()
		d.offers("rome", 1, "8")
		taken := int64(0)
		for _, r := range d.state.All() {
			if r.State.Counts() && r.Provider == "rome" {
				taken += r.Size.Of("cpu")
			}
		}
		if got := d.available("rome"); got != 8000-taken {
			t.Errorf("after %d events rome has %d left, want %d", keep, got, 8000-taken)
		}
		if _, err := market.Decide(d.state, request("new", 1), d.now); err != nil {
			t.Errorf("after %d events: %v", keep, err)
		}
	}
	if d.state.Count()[api.Held] != 0 {
		t.Error("an empty market holds something")
	}
}
