package market

import (
	"bytes"
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
)

// RequestReader reads what clusters ask for, as ReadDelta does what they advertise. Requests are kept for long and many are alike, so what
// they say alike is kept once. It is for one goroutine at a time; its zero value is ready.
type RequestReader struct {
	known known
	size  int // of what was read since it knew nothing
}

// Read reads the JSON of a request, in any spelling. Errors: those of encoding/json.
func (r *RequestReader) Read(data []byte, into *api.ReservationCreate) error {
	if r.read(bytes.Trim(data, " \t\r\n"), into) {
		return nil
	}
	*into = api.ReservationCreate{}
	return json.Unmarshal(data, into)
}

func (r *RequestReader) read(data []byte, into *api.ReservationCreate) bool {
	if r.size += len(data); r.size > maxKnown || r.known.texts == nil { // forgetting is cheaper than remembering what to forget
		r.known, r.size = newKnown(), len(data)
	}
	d := &decoder{b: data, known: r.known}
	d.take('{')
	if d.has("request") {
		into.Request = *d.request()
	}
	d.take('}')
	return d.done()
}

// MaxRequest is how many bytes of a request a market keeps: several times what an honest one takes that says all it can.
const MaxRequest = 32 << 10

// CheckRequest bounds what is kept of a request, which it appends to b. Errors: TooLarge.
func CheckRequest(b []byte, r *api.Request) ([]byte, error) {
	w := &encoder{b: b}
	w.request(r)
	if size := len(w.b) - len(b); w.err != nil || size > MaxRequest {
		return b, api.Errorf(api.CodeTooLarge, "the request takes %d bytes in the journal, of at most %d", size, MaxRequest).At("request").
			Fix("name fewer resources, properties and clusters")
	}
	return w.b, nil
}

// maxKnown is how many bytes of requests are read before all that is known of them is forgotten.
const maxKnown = 4 << 20
