package decoded_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
)

// many is a list of one JSON value, repeated.
func many(value string) string { return "[" + strings.Repeat(value+",", 20_000) + value + "]" }

// entries is an object with one JSON value under many keys.
func entries(value string) string {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, `"%x":%s,`, i, value)
	}
	return "{" + b.String() + `"z":` + value + "}"
}

// heap is what decoding data into a value leaves, in bytes.
func heap(t *testing.T, data string, into any) int64 {
	t.Helper()
	before, after := runtime.MemStats{}, runtime.MemStats{}
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(into)
	runtime.KeepAlive(data)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// Nothing that is small as JSON takes much more memory than its estimate.
func TestCostIsAtLeastTheHeap(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		into any
	}{
		"empty objects":      {many(`{}`), new(any)},
		"small objects":      {many(`{"":0}`), new(any)},
		"objects of nine":    {many(`{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0}`), new(any)},
		"empty lists":        {many(`[]`), new(any)},
		"small lists":        {many(`[0]`), new(any)},
		"numbers":            {many(`0`), new(any)},
		"texts":              {many(`""`), new(any)},
		"short texts":        {many(`"a"`), new(any)},
		"a large object":     {entries(`0`), new(any)},
		"nested lists":       {many(`[[[]]]`), new(any)},
		"plans":              {`{"payload":{"offer":{"plans":` + many(`{}`) + `}}}`, new(api.Envelope[api.Listing])},
		"resources of plans": {`{"payload":{"offer":{"plans":` + many(`{"resources":{"":"1"}}`) + `}}}`, new(api.Envelope[api.Listing])},
		"prices of plans": {`{"payload":{"offer":{"plans":` + many(`{"price":{},"units":{}}`) + `}}}`,
			new(api.Envelope[api.Listing])},
		"offers of a seller": {`{"seller":{"offers":` + many(`{}`) + `}}`, new(api.WatchEvent)},
		"attempts":           {`{"payload":{"tried":` + many(`{}`) + `}}`, new(api.Envelope[api.Reservation])},
		"eliminated": {`{"payload":{"decision":{"eliminated":` + many(`{}`) + `}}}`,
			new(api.Envelope[api.Reservation])},
		"scores":             {`{"decision":{"top":` + many(`{"scores":[{}]}`) + `}}`, new(api.Evaluation)},
		"verdicts":           {`{"clusters":` + many(`{}`) + `}`, new(api.Evaluation)},
		"pools of a cluster": {`{"payload":{"pools":` + entries(`{}`) + `}}`, new(api.Envelope[api.Cluster])},
		"labels": {`{"payload":{"properties":{"labels":` + entries(`""`) + `}}}`,
			new(api.Envelope[api.Cluster])},
		"accounts":    {`{"pools":{"a":{"accounts":` + entries(`{}`) + `}}}`, new(api.Measurement)},
		"commitments": {`{"pools":{"a":{"accounts":{"b":{"commitments":` + entries(`{"":"1"}`) + `}}}}}`, new(api.Measurement)},
		"commitments of nothing": {`{"pools":{"a":{"accounts":{"b":{"commitments":` + entries(`{}`) + `}}}}}`,
			new(api.Measurement)},
		"resources": {`{"pools":{"a":{"capacity":` + entries(`"1"`) + `}}}`, new(api.Measurement)},
		"shapes":    {`{"pools":{"a":{"shapes":` + many(`{"free":{"":"1"}}`) + `}}}`, new(api.Measurement)},
	} {
		cost, heap := decoded.Cost([]byte(c.data)), heap(t, c.data, c.into)
		t.Logf("%s: %d bytes, estimate %d, heap %d: %.2f", name, len(c.data), cost, heap, float64(heap)/float64(cost))
		if heap > 2*cost {
			t.Errorf("%s: %d bytes of JSON take %d of heap, more than twice the estimate %d", name, len(c.data), heap, cost)
		}
	}
}

// AtMost is never less than what a Meter says.
func TestAtMost(t *testing.T) {
	const alphabet = `{}[],:"\a`
	for range 10_000 {
		data := make([]byte, rand.IntN(64))
		for i := range data {
			data[i] = alphabet[rand.IntN(len(alphabet))]
		}
		var m decoded.Meter
		m.Read(data)
		if cost, depth := decoded.AtMost(data); cost < m.Cost || depth < m.Depth {
			t.Fatalf("%s: at most %d and %d deep, but it is %d and %d deep", data, cost, depth, m.Cost, m.Depth)
		}
	}
}

// Where JSON is cut into parts changes nothing, and what is in texts does not count.
func TestParts(t *testing.T) {
	whole := `{"a\"{[,":["\\",{"b":"}]\u0000"},1,2],"c":{}}`
	var once decoded.Meter
	once.Read([]byte(whole))
	if want := (decoded.Meter{Cost: once.Cost, Depth: 3}); once != want {
		t.Errorf("%+v, want %+v", once, want)
	}
	for range 100 {
		var m decoded.Meter
		for rest := []byte(whole); len(rest) > 0; {
			n := rand.IntN(len(rest)) + 1
			m.Read(rest[:n])
			rest = rest[n:]
		}
		if m != once {
			t.Fatalf("in parts %+v, at once %+v", m, once)
		}
	}
	for _, data := range []string{"\x00", "\"\x00\""} {
		var m decoded.Meter
		if m.Read([]byte(data)); !m.Null {
			t.Errorf("no NUL is seen in %q", data)
		}
	}
}

func BenchmarkMeter(b *testing.B) {
	data := []byte(entries(`{"cpu":"1","memory":"128Mi"}`))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		decoded.Cost(data)
	}
}

func BenchmarkAtMost(b *testing.B) {
	data := []byte(`{"base":{"incarnation":1,"number":7},"pools":{"general":{"allocated":{"cpu":"1","memory":"128Mi"}}}}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		decoded.AtMost(data)
	}
}
