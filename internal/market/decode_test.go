package market

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
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
			if got, ok := decodeReservationEvent(line, newKnown()); ok != (want.Reservation != nil) || ok && !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is read as %+v (%v)", path, line, got.Reservation, ok)
			}
		}
		golden := bytes.TrimSpace(read(t, path[:len(path)-len("jsonl")]+"state"))
		var want snapshot
		if err := strictly(golden, &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := decodeWhole(golden); !ok || !reflect.DeepEqual(got, want) {
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
		if got, ok := decodeReservationEvent(data, newKnown()); ok && legible(got.Reservation) {
			var want Event
			if err := strictly(data, &want); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v, want %+v, %v", data, got.Reservation, want.Reservation, err)
			}
		}
		if got, ok := decodeWhole(data); ok && !slices.ContainsFunc(got.Reservations, func(k kept) bool { return !legible(&k.ReservationEvent) }) {
			var want snapshot
			if err := strictly(data, &want); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v, want %+v, %v", data, got, want, err)
			}
		}
	})
}

// legible says whether the explanation of a reservation is JSON. It is read when somebody asks for it, and is none then if it is not.
func legible(e *ReservationEvent) bool { return e.Why == nil || json.Valid(e.Why) }

// So it does with deltas, and those that agents write it reads itself.
func FuzzReadDelta(f *testing.F) {
	used := api.Resources{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Gi")}
	for _, delta := range []api.MeasurementDelta{
		{Base: api.Sequence{Incarnation: 1, Number: 2}, Sequence: api.Sequence{Incarnation: 1, Number: 3}},
		{Pools: map[string]*api.PoolDelta{api.GeneralPool: {Allocated: used}}},
		{Pools: map[string]*api.PoolDelta{"a": {Capacity: used, Allocatable: used, Shared: used}, "b": {Shapes: []api.Shape{{Nodes: 3, Free: used}}}}},
		{Pools: map[string]*api.PoolDelta{api.GeneralPool: {Accounts: map[string]*api.AccountUse{"rome": {Used: used, Commitments: map[string]api.Resources{"r": used}}, "oslo": nil}}}},
	} {
		data, err := json.Marshal(delta)
		if err != nil {
			f.Fatal(err)
		}
		if d := (&decoder{b: data}); !d.delta(&api.MeasurementDelta{}) {
			f.Errorf("%s is odd", data)
		}
		f.Add(append(data, '\n'))
	}
	for _, odd := range []string{
		``, `{`, `null`, `{"base":null,"pools":null}`, `{"pools":{"a":null}}`, `{"pools":{"a":{},"a":{}}}`, `{"pools":{"a":{"shared":{"cpu":1,"memory":""}}}}`,
		`{"sequence":{"number":2},"base":{"number":1},"more":[]}`, `{"pools":{"a":{"shared":{"cpu":"1","cpu":"2"}}}}`, `{"Pools":{}} {}`, "\v{}", "\u00a0{}", " \t\r\n{} \n",
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if farExponent.Match(data) {
			return
		}
		var got, want api.MeasurementDelta
		wrong := json.Unmarshal(data, &want)
		if err := ReadDelta(data, &got); fmt.Sprint(err) != fmt.Sprint(wrong) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v; want %+v, %v", data, got, err, want, wrong)
		}
	})
}

// So it does with requests.
func FuzzReadRequest(f *testing.F) {
	hour := &metav1.Duration{Duration: time.Hour}
	for _, request := range []api.Request{
		{}, {Resources: api.Resources{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}, Where: `region == "eu"`, Duration: hour},
	} {
		data, err := json.Marshal(api.ReservationCreate{Request: request})
		if err != nil {
			f.Fatal(err)
		}
		if !new(RequestReader).read(data, &api.ReservationCreate{}) {
			f.Errorf("%s is odd", data)
		}
		f.Add(append(data, '\n'))
	}
	for _, odd := range []string{
		``, `{`, `{}`, `null`, `{"request":null}`, `{"request":{}} {}`, `{"request":{},"more":1}`, `{"request":{"duration":"1"}}`, `{"request":{"duration":null,"wait":"1h"}}`,
		`{"request":{"where":"a","resources":{"cpu":1}}}`, `{"request":{"resources":{"cpu":"1","cpu":"2"}}}`, `{"request":{"priority":3000000000}}`, `{"Request":{}}`,
	} {
		f.Add([]byte(odd))
	}
	var reader RequestReader // which knows all that it has read
	f.Fuzz(func(t *testing.T, data []byte) {
		if farExponent.Match(data) {
			return
		}
		var got, want api.ReservationCreate
		wrong := json.Unmarshal(data, &want)
		if err := reader.Read(data, &got); fmt.Sprint(err) != fmt.Sprint(wrong) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v; want %+v, %v", data, got, err, want, wrong)
		}
	})
}

// A snapshot that is read in pieces leads to the same market, whatever is in its texts, and where a record is not as it is written, too.
func TestRestoreInPieces(t *testing.T) {
	s := New("")
	for i := range 2000 {
		s.Apply(Event{Time: 1, Reservation: &ReservationEvent{Reservation: &Reservation{
			ID: fmt.Sprintf("r-%04d", i), Consumer: "rome", Pool: api.GeneralPool, State: api.Rejected,
			Request: &api.Request{Resources: api.Resources{"cpu": resource.MustParse(fmt.Sprint(1 + i%7))}}, Message: strings.Repeat(`é\n},{"id":"`, 100),
		}}})
	}
	want, err := s.Snapshot()()
	if err != nil {
		t.Fatal(err)
	}
	if _, pieces, ok := decodeSnapshot(want, inTurn); !ok || len(pieces) < 3 {
		t.Fatalf("%d bytes are %d pieces", len(want), len(pieces))
	}
	odd := bytes.Replace(want, []byte(`{"id":"r-1999","consumer":"rome"`), []byte(`{"consumer":"rome","id":"r-1999"`), 1)
	if bytes.Equal(odd, want) {
		t.Fatal("nothing is odd")
	}
	for name, data := range map[string][]byte{"as written": want, "with an odd record": odd} {
		again := New("")
		if err := again.Restore(data, nil); err != nil {
			t.Fatal(name, err)
		}
		if got, err := again.Snapshot()(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: it is restored as another one, %v", name, err)
		}
		if again.Imbalance() != 0 || len(again.Of("rome", 0)) != 2000 {
			t.Errorf("%s: it holds something twice", name)
		}
	}
	for _, wrong := range []string{`{"revision":1,"time":1,"reservations":[}]}`, `{"revision":1,"time":1,"members":[,]}`, `{"revision":1,"time":1,"reservations":[`} {
		if err := New("").Restore([]byte(wrong), nil); err == nil {
			t.Errorf("%s is restored", wrong)
		}
	}
}

func decodeWhole(data []byte) (snapshot, bool) {
	s, pieces, ok := decodeSnapshot(data, inTurn)
	for _, piece := range pieces {
		read, odd := decodeKept(piece)
		s.Reservations, ok = append(s.Reservations, read...), ok && !odd
	}
	return s, ok
}

var farExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

func read(t testing.TB, path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
