package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

const maxDepth = 24

var (
	errDeep = fmt.Errorf("nested deeper than %d", maxDepth)
	errRich = fmt.Errorf("would take more than %d bytes of memory once decoded: send fewer values", littleMemory)
	errNUL  = errors.New("contains a NUL byte")
)

// jsonFormat reads and writes JSON. It rejects JSON that is nested deeper than any of our payloads. It
// handles the most frequent payloads without reflection.
func jsonFormat() huma.Format {
	var requests requestReader
	return huma.Format{
		Marshal: func(w io.Writer, v any) error {
			if answer, often := v.(api.Envelope[api.Reservation]); often {
				return buffered(func(b []byte) ([]byte, error) {
					data, err := market.AppendAnswer(b, &answer)
					if err == nil {
						_, err = w.Write(append(data, '\n'))
					}
					return data, err
				})
			}
			if list, ok := v.(interface{ send(io.Writer) error }); ok {
				return list.send(w)
			}
			return json.NewEncoder(w).Encode(v)
		},
		Unmarshal: func(data []byte, v any) error {
			if err := checkShape(data); err != nil {
				return err
			}
			switch v := v.(type) {
			case *api.ReservationCreate:
				return readable(requests.Read(data, v))
			case *api.MeasurementDelta: // not validated
				if err := plain(data); err != nil {
					return err
				}
				return readable(market.ReadDelta(data, v))
			}
			return readable(json.Unmarshal(data, v))
		},
	}
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// buffered calls write with an empty buffer from a pool.
func buffered(write func([]byte) ([]byte, error)) error {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	var err error
	*b, err = write((*b)[:0])
	return err
}

// requestReader reads requests; any goroutine may use it.
type requestReader struct {
	mu sync.Mutex
	market.RequestReader
}

func (r *requestReader) Read(data []byte, into *api.ReservationCreate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.RequestReader.Read(data, into)
}

// plain rejects numbers with an exponent of more than two digits, such as 1e-99999999, on which
// Kubernetes' parser of quantities would spend hours. The schema of a quantity does this for other bodies.
// Bodies of hot paths, which have no free text, are checked here.
func plain(data []byte) error {
	for i := 1; i+3 < len(data); i++ {
		if (data[i] != 'e' && data[i] != 'E') || !numeral(data[i-1]) {
			continue
		}
		digits := data[i+1:]
		if digits[0] == '+' || digits[0] == '-' {
			digits = digits[1:]
		}
		if len(digits) >= 3 && digit(digits[0]) && digit(digits[1]) && digit(digits[2]) {
			return fmt.Errorf("a number has an exponent of more than two digits")
		}
	}
	return nil
}

func digit(c byte) bool   { return c >= '0' && c <= '9' }
func numeral(c byte) bool { return digit(c) || c == '.' }
