package market

import (
	"bufio"
	"bytes"
	"sync"
)

// pieces are buffers as large as those that a snapshot makes itself. It uses the one that it is given: to make
// and clear one for each of the many small snapshots of these tests takes most of their time.
var pieces = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 256<<10) }}

// Encoded is a snapshot of the state.
func Encoded(s *State) ([]byte, error) {
	var out bytes.Buffer
	buffer := pieces.Get().(*bufio.Writer)
	defer pieces.Put(buffer)
	buffer.Reset(&out)
	err := s.Snapshot()(buffer)
	return out.Bytes(), err
}

// Queued is how many entries wait for their time.
func (s *State) Queued() int { return s.due.Len() }

// Misplaced are the reservations and tokens whose entries are not where, or not due when, they should be.
func (s *State) Misplaced() (ids []string) {
	check := func(d *due, at Time) {
		if queued, ok := s.due.Get(d); d.at != at || ok != (at != 0) || ok && queued != d {
			ids = append(ids, d.id)
		}
	}
	for _, r := range s.reservations {
		check(r.due, s.next(r))
	}
	for _, t := range s.tokens {
		check(t.due, t.forgetAt())
	}
	return ids
}
