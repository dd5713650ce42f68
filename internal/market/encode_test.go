package market_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// sameAsMarshal compares Encode with json.Marshal, which is what defines the form of an event.
func sameAsMarshal(t rapid.TB, e market.Event) {
	t.Helper()
	want, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, e); string(got) != string(want) {
		t.Fatalf("encoded as\n%s\nwant\n%s", got, want)
	}
}

// Each field of a reservation and of its decision is written, alone and with all others: one that is added and
// forgotten in the encoder would be lost at the next restart.
func TestEveryFieldIsEncoded(t *testing.T) {
	all := market.Event{Time: noon, Reservation: &market.ReservationEvent{Reservation: &market.Reservation{}, Decision: &api.Decision{}}}
	sameAsMarshal(t, all)
	for _, record := range []any{all.Reservation.Reservation, all.Reservation.Decision} {
		v := reflect.ValueOf(record).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") == "-" {
				continue
			}
			one := market.Event{Time: noon, Reservation: &market.ReservationEvent{Reservation: &market.Reservation{}}}
			alone := reflect.ValueOf(one.Reservation.Reservation).Elem()
			if _, decision := record.(*api.Decision); decision {
				one.Reservation.Decision = &api.Decision{}
				alone = reflect.ValueOf(one.Reservation.Decision).Elem()
			}
			fill(alone.Field(i))
			fill(v.Field(i))
			t.Run(v.Type().Field(i).Name, func(t *testing.T) { sameAsMarshal(t, one) })
		}
	}
	sameAsMarshal(t, all)
}

// fill gives a value, and all that is in it, something to say.
func fill(v reflect.Value) {
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		*q = resource.MustParse("1500m")
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
			if v.Type().Field(i).Tag.Get("json") != "-" {
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

func TestAnyTextIsEncoded(t *testing.T) {
	for _, where := range []string{`region == "eu" && cores >= 4`, `name.matches('a<b\\.c')`, `"`, "two\nlines of \"text\"", "\x7f", "ende \u00fc & <b>"} {
		sameAsMarshal(t, market.Event{Reservation: &market.ReservationEvent{Reservation: &market.Reservation{Request: &api.Request{Where: where}}}})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }))
		r := &market.Reservation{ID: text.Draw(t, "id"), Key: text.Draw(t, "key"), Next: []string{text.Draw(t, "next")},
			Size: market.Amounts{{Resource: text.Draw(t, "resource"), Value: rapid.Int64().Draw(t, "value")}}, Created: market.Time(rapid.Int64().Draw(t, "created"))}
		sameAsMarshal(t, market.Event{Reservation: &market.ReservationEvent{Reservation: r}})
	})
}
