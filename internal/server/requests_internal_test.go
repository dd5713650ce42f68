package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// A reader that knows what was read before reads what payload reads.
func FuzzRequestReader(f *testing.F) {
	for _, seed := range []string{
		`{"request":{"resources":{"cpu":"2","memory":"4Gi"},"where":"region == \"eu\"","duration":"1h"}}` + "\n",
		``, `{`, `{}`, `null`, `{"request":null}`, `{"request":{}} {}`, `{"request":{},"more":1}`, `{"request":{"duration":"1"}}`, `{"request":{"duration":null,"wait":"1h"}}`,
		`{"request":{"where":"a","resources":{"cpu":1}}}`, `{"request":{"resources":{"cpu":"1","cpu":"2"}}}`, `{"request":{"priority":3000000000}}`, `{"Request":{}}`,
	} {
		f.Add([]byte(seed))
	}
	var reader requestReader
	f.Fuzz(func(t *testing.T, data []byte) {
		var want api.ReservationCreate
		wrong := payload.Unmarshal(data, &want)
		for range 2 {
			var got api.ReservationCreate
			if err := reader.read(data, &got); fmt.Sprint(err) != fmt.Sprint(wrong) ||
				err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v, %v; want %+v, %v", data, got, err, want, wrong)
			}
		}
	})
}

// What the reader knows is bounded.
func TestKnownRequestsAreBounded(t *testing.T) {
	var reader requestReader
	for i := range 1000 {
		data := fmt.Appendf(nil, `{"request":{"where":"%d %s"}}`, i, strings.Repeat("x", 20_000))
		if err := reader.read(data, &api.ReservationCreate{}); err != nil {
			t.Fatal(err)
		}
		if reader.size > maxKnown || len(reader.known) == 0 {
			t.Fatalf("%d requests of %d bytes are known", len(reader.known), reader.size)
		}
	}
}
