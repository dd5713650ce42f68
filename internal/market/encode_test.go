package market_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/payload"
)

// plainly is what encoding/json makes of a value without escaping HTML.
func plainly(t rapid.TB, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	spell := json.NewEncoder(&out)
	spell.SetEscapeHTML(false)
	if err := spell.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(out.Bytes())
}

// sameAsMarshal compares Encode with encoding/json, which is what defines the form of an event.
func sameAsMarshal(t rapid.TB, e market.Event) {
	t.Helper()
	want := plainly(t, e)
	if got := encode(t, e); string(got) != string(want) {
		t.Fatalf("encoded as\n%s\nwant\n%s", got, want)
	}
}

// Each field of a reservation and of its decision is written, alone and with all others: one that
// is added and forgotten in the encoder would be lost at the next restart.
func TestEveryFieldIsEncoded(t *testing.T) {
	all := &market.Reservation{}
	eachField(t, reflect.ValueOf(all).Elem(), func(t *testing.T, alone reflect.Value) {
		r := alone.Interface().(market.Reservation)
		for _, why := range []market.Why{nil, market.Explain(&api.Decision{})} {
			sameAsMarshal(t, market.Event{Time: noon, Reservation: &market.ReservationEvent{Reservation: &r, Why: why}})
		}
	})
	eachField(t, reflect.ValueOf(&api.Decision{}).Elem(), func(t *testing.T, alone reflect.Value) {
		d := alone.Interface().(api.Decision)
		want := plainly(t, d)
		why := market.Explain(&d)
		if string(why) != string(want) {
			t.Fatalf("explained as\n%s\nwant\n%s", why, want)
		}
		if got := why.Decision(); !reflect.DeepEqual(*got, d) {
			t.Errorf("read as %s", dump(got))
		}
	})
}

// What a party reads of a reservation is spelled as json.Marshal does, field by field. Only an object without a
// value is {} instead of null.
func TestEveryFieldIsAnswered(t *testing.T) {
	eachField(t, reflect.ValueOf(&api.Reservation{}).Elem(), func(t *testing.T, alone reflect.Value) {
		e := &api.Envelope[api.Reservation]{ID: "r-1", Revision: 1<<64 - 1, Payload: alone.Interface().(api.Reservation)}
		want, err := json.Marshal(e)
		want = bytes.ReplaceAll(want, []byte(`"resources":null`), []byte(`"resources":{}`))
		var got bytes.Buffer
		failed := payload.Answer(&got, e)
		if err != nil || failed != nil || got.String() != string(want)+"\n" {
			t.Fatalf("answered\n%s, %v\nwant\n%s, %v", &got, failed, want, err)
		}
	})
}

// eachField checks a record with each of its fields alone, with none and with all.
func eachField(t *testing.T, all reflect.Value, check func(t *testing.T, alone reflect.Value)) {
	check(t, all)
	for i := range all.NumField() {
		if f := all.Type().Field(i); f.Tag.Get("json") == "-" || !f.IsExported() {
			continue
		}
		alone := reflect.New(all.Type()).Elem()
		fill(alone.Field(i))
		fill(all.Field(i))
		t.Run(all.Type().Field(i).Name, func(t *testing.T) { check(t, alone) })
	}
	check(t, all)
}

// fill gives a value, and all that is in it, something to say.
func fill(v reflect.Value) {
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		*q = resource.MustParse("1500m")
		return
	}
	if at, ok := v.Addr().Interface().(*metav1.Time); ok {
		*at = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a <\"text\"> & \\ \u2028")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(-7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("json") != "-" && f.IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range 3 {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(value)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key ", 2-i)).Convert(v.Type().Key()), value)
		}
	default:
		panic("a kind of value that no event had: " + v.Kind().String())
	}
}

// What a member sends takes no more bytes in the journal than in its request.
func TestTextDoesNotGrowInTheJournal(t *testing.T) {
	for _, c := range "<>&'/+=" {
		in := api.ReservationCreate{Request: api.Request{Where: strings.Repeat(string(c), 2000),
			Properties: map[string]string{strings.Repeat(string(c), 300): "x"}}}
		sent := len(plainly(t, in))
		for name, e := range map[string]market.Event{
			"reservation": {Reservation: &market.ReservationEvent{Reservation: &market.Reservation{Request: &in.Request}}},
			"member": {Member: &market.Member{Card: &api.Card{Properties: api.Properties{Labels: in.Request.Properties,
				Region: in.Request.Where}}}},
		} {
			if kept := len(encode(t, e)); kept > sent+1000 {
				t.Errorf("%s: %d bytes of %q are sent, and %d are kept", name, sent, c, kept)
			}
		}
	}
}

func TestAnyTextIsEncoded(t *testing.T) {
	for _, where := range []string{`region == "eu" && cores >= 4`,
		`name.matches('a<b\\.c')`, `"`, "two\nlines of \"text\"", "\x7f", "ende \u00fc & <b>"} {
		sameAsMarshal(t,
			market.Event{Reservation: &market.ReservationEvent{Reservation: &market.Reservation{Request: &api.Request{Where: where}}}})
	}
	event := func(t *rapid.T, text *rapid.Generator[string]) market.Event {
		return market.Event{Reservation: &market.ReservationEvent{Reservation: &market.Reservation{
			ID: text.Draw(t, "id"), Key: text.Draw(t, "key"), Next: []string{text.Draw(t,
				"next")}, Created: market.Time(rapid.Int64().Draw(t, "created")),
			Size: amounts.List{{Resource: text.Draw(t, "resource"), Value: rapid.Int64().Draw(t, "value")}},
		}}}
	}
	rapid.Check(t, func(t *rapid.T) { sameAsMarshal(t, event(t, rapid.String())) })
	rapid.Check(t, func(t *rapid.T) { // what is not UTF-8 is spelled otherwise, and read as the same
		e := event(t, rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }))
		if got, want := decode(t, encode(t, e)), decode(t, plainly(t, e)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %s, want %s", e.Reservation.ID, dump(got), dump(want))
		}
	})
}
