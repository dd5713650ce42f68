package server

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/payload"
)

const maxDepth = 24

var (
	errDeep = fmt.Errorf("nested deeper than %d", maxDepth)
	errRich = fmt.Errorf("would take more than %d bytes of memory once decoded: send fewer values", smallBodyMemory)
	errNUL  = errors.New("contains a NUL byte")
)

// jsonFormat reads and writes JSON. It rejects JSON that is nested deeper than any of our payloads, and
// amounts that are none: the REST framework decodes also what its schemas refused.
func jsonFormat() huma.Format {
	var requests requestReader
	return huma.Format{
		Marshal: func(w io.Writer, v any) error {
			if list, ok := v.(interface{ send(io.Writer) error }); ok {
				return list.send(w)
			}
			return payload.Answer(w, v)
		},
		Unmarshal: func(data []byte, v any) error {
			if err := checkShape(data); err != nil {
				return err
			}
			if v, ok := v.(*api.ReservationCreate); ok {
				return readable(requests.read(data, v))
			}
			return readable(payload.Unmarshal(data, v))
		},
	}
}

// requestReader decodes requests. Requests with the same text share their maps and lists, because the
// market keeps requests for long and many are alike. The zero value is ready; several goroutines may use
// it.
type requestReader struct {
	mu    sync.Mutex
	known map[string]api.ReservationCreate
	size  int64 // about how much memory they take
}

// maxKnown is how much memory the known requests may take before all of them are forgotten.
const maxKnown = 8 << 20

func (r *requestReader) read(data []byte, into *api.ReservationCreate) error {
	r.mu.Lock()
	known, ok := r.known[string(data)]
	r.mu.Unlock()
	if ok {
		*into = known
		return nil
	}
	if err := payload.Unmarshal(data, into); err != nil {
		return err
	}
	size := decoded.Cost(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += size; r.size > maxKnown || r.known == nil {
		r.known, r.size = map[string]api.ReservationCreate{}, size
	}
	r.known[string(data)] = *into
	return nil
}
