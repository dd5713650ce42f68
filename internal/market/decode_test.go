package market

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// What journals hold, of this version and of those before it, is read as encoding/json would.
func TestDecoder(t *testing.T) {
	journals, err := filepath.Glob("testdata/journal-*.jsonl")
	if err != nil || len(journals) == 0 {
		t.Fatal("no journals", err)
	}
	for _, path := range journals {
		reader := NewEventReader()
		for _, line := range bytes.Split(bytes.TrimSpace(read(t, path)), []byte("\n")) {
			var want Event
			if err := strictly(line, &want); err != nil {
				t.Fatal(err)
			}
			if got, err := reader.Read(line); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is read as %+v (%v)", path, line, got.Reservation, err)
			}
		}
		golden := bytes.TrimSpace(read(t, path[:len(path)-len("jsonl")]+"state"))
		var want snapshot
		if err := strictly(golden, &want); err != nil {
			t.Fatal(err)
		}
		var got snapshot
		if err := payload.Read(golden, &got, payload.Sharing()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the snapshot is read as %+v (%v)", path, got, err)
		}
	}
}

// A market reads any input as encoding/json does, or refuses it as encoding/json does.
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
		`{"TIME":1,"Reservation":{"ID":"a"}}`, `{"revision":1,"time":1,"reservations":[{"id":"a","revision":1},{"id":"b","revision":2}],"awake":1}`,
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if farExponent.Match(data) { // every decoder takes for ever for a quantity like 1e999999999
			return
		}
		var want Event
		wrong := strictly(data, &want)
		var got Event
		if err := payload.Read(data, &got, payload.Sharing()); (err == nil) != (wrong == nil) ||
			err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v; want %+v, %v", data, got, err, want, wrong)
		}
		var shared, plain snapshot
		wrong = strictly(data, &plain)
		if err := payload.Read(data, &shared, payload.Sharing()); (err == nil) != (wrong == nil) ||
			err == nil && !reflect.DeepEqual(shared, plain) {
			t.Errorf("%s is read as the snapshot %+v, %v; want %+v, %v", data, shared, err, plain, wrong)
		}
	})
}

// strictly reads JSON as encoding/json does, without unknown fields and with nothing after it.
func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows it")
	}
	return nil
}

// A snapshot leads to the same market, with any text in it, and with the fields of a record in another order.
func TestRestore(t *testing.T) {
	s := New("")
	for i := range 2000 {
		s.Apply(Event{Time: 1, Reservation: &ReservationEvent{Reservation: &Reservation{
			ID: fmt.Sprintf("r-%04d", i), Consumer: "rome", Pool: api.GeneralPool, State: api.Rejected,
			Request: &api.Request{Resources: api.Resources{"cpu": resource.MustParse(fmt.Sprint(1 + i%7))}}, Message: strings.Repeat(`é\n},{"id":"`, 100),
		}}})
	}
	want, err := Encoded(s)
	if err != nil {
		t.Fatal(err)
	}
	odd := bytes.Replace(want, []byte(`{"id":"r-1999","consumer":"rome"`), []byte(`{"consumer":"rome","id":"r-1999"`), 1)
	if bytes.Equal(odd, want) {
		t.Fatal("nothing is odd")
	}
	for name, data := range map[string][]byte{"as written": want, "with an odd record": odd} {
		again := New("")
		if err := again.Restore(data); err != nil {
			t.Fatal(name, err)
		}
		if got, err := Encoded(again); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: it is restored as another one, %v", name, err)
		}
		if again.Imbalance() != 0 || len(again.Of("rome", 0)) != 2000 {
			t.Errorf("%s: it holds something twice", name)
		}
	}
	for _, wrong := range []string{`{"revision":1,"time":1,"reservations":[}]}`,
		`{"revision":1,"time":1,"members":[,]}`, `{"revision":1,"time":1,"reservations":[`} {
		if err := New("").Restore([]byte(wrong)); err == nil {
			t.Errorf("%s is restored", wrong)
		}
	}
}

var farExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

func read(t testing.TB, path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
