package client

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/payload"
)

// errTooLarge says that an answer goes beyond its bound.
var errTooLarge = errors.New("too large")

// answer decodes the body of an answer. The decoder reads a whole value before it makes anything of
// it; so what is estimated as it is read bounds what is made. What goes beyond the bound is not
// decoded.
type answer struct {
	*json.Decoder
	value json.RawMessage // the last that Decode decoded
	body  io.Reader
	most  bound
	meter decoded.Meter
	read  int64 // bytes
	until int64 // where the value that is read must have ended, in bytes
	taken int64 // bytes of memory, beside the meter's
}

func newAnswer(body io.Reader, most bound) *answer {
	a := &answer{body: body, most: most, until: most.bytes}
	a.Decoder = json.NewDecoder(a)
	return a
}

// Decode decodes the next value. It hides the method of the decoder, which would spend hours on some
// amounts.
func (a *answer) Decode(into any) error {
	if err := a.Decoder.Decode(&a.value); err != nil {
		return err
	}
	return payload.Unmarshal(a.value, into)
}

// begin notes that an item begins, which has a bound of its own: the decoder holds all of its text.
func (a *answer) begin() { a.until = min(a.most.bytes, a.InputOffset()+onePayload.bytes) }

// take counts memory that the answer takes beside what its text becomes. Errors: errTooLarge.
func (a *answer) take(memory int64) error {
	if a.taken += memory; a.memory() > a.most.memory {
		return errTooLarge
	}
	return nil
}

// memory is the estimate of what was read, in bytes.
func (a *answer) memory() int64 { return a.meter.Cost + a.taken }

// Read implements io.Reader, for the decoder. Errors: errTooLarge.
func (a *answer) Read(into []byte) (int, error) {
	if left := a.until - a.read; int64(len(into)) > left {
		into = into[:max(0, left)]
	}
	if len(into) == 0 {
		// The answer may end exactly here.
		if n, err := io.ReadFull(a.body, make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := a.body.Read(into)
	a.read += int64(n)
	a.meter.Read(into[:n])
	if a.memory() > a.most.memory {
		return 0, errTooLarge
	}
	return n, err
}
