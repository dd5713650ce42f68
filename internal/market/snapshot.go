package market

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bourse-dev/bourse/internal/payload"
)

// snapshot is a state in a journal: its durable records, sorted.
type snapshot struct {
	Revision     uint64    `json:"revision"`
	Time         Time      `json:"time"`
	Members      []*Member `json:"members,omitempty"`
	Tokens       []*Token  `json:"tokens,omitempty"`
	Offers       []*Offer  `json:"offers,omitempty"`
	Spent        []Spent   `json:"spent,omitempty"`
	Passed       []Passed  `json:"passed,omitempty"`
	Reservations []kept    `json:"reservations,omitempty"`
	// Awake is the broker's clock, as last journalled. Presences are the leases by that clock.
	Awake     Time        `json:"awake,omitempty"`
	Presences []*presence `json:"presences,omitempty"`
	// Records are the records of providers.
	Records []*record `json:"records,omitempty"`
	// Operators is nil until an operator's certificate was ended.
	Operators *Operators `json:"operators,omitempty"`
}

type kept struct {
	ReservationEvent
	Revision uint64 `json:"revision"`
}

// Snapshot collects the durable records of the state. The returned function encodes them, on any goroutine.
func (s *State) Snapshot() func() ([]byte, error) {
	out, size := s.collect(), int64(4096)
	for _, k := range out.Reservations {
		size += k.Bytes
	}
	return func() ([]byte, error) { return payload.Append(make([]byte, 0, size), out.sort()) }
}

// SnapshotTo is Snapshot, written piece by piece, so that the encoded snapshot is never in memory as a whole.
func (s *State) SnapshotTo() func(io.Writer) error {
	out := s.collect()
	return func(to io.Writer) error { return payload.Write(to, out.sort()) }
}

func (s *State) collect() snapshot {
	out := snapshot{Revision: s.Revision, Time: s.Time, Awake: s.awake.told}
	out.Operators = s.operators
	out.Members, out.Tokens, out.Offers = s.Members(), s.Tokens(), s.Offers()
	out.Spent, out.Passed = s.allSpent(), s.allPassed()
	out.Reservations = make([]kept, 0, len(s.reservations))
	for _, r := range s.reservations {
		out.Reservations = append(out.Reservations, kept{ReservationEvent{Reservation: r, Why: r.Why}, r.Revision})
	}
	for _, p := range s.slots {
		if p.presence != nil {
			out.Presences = append(out.Presences, p.presence)
		}
		if p.record != nil {
			out.Records = append(out.Records, p.record)
		}
	}
	return out
}

func (out snapshot) sort() snapshot {
	slices.SortFunc(out.Presences, func(a, b *presence) int { return cmp.Compare(a.Cluster, b.Cluster) })
	slices.SortFunc(out.Records, func(a, b *record) int { return cmp.Compare(a.Cluster, b.Cluster) })
	slices.SortFunc(out.Reservations, func(a, b kept) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Each calls read for each i below n, in any order and on several goroutines. It calls take in order, on the
// caller's goroutine, after the read of the same i. The market starts no goroutines itself.
type Each func(n int, read, take func(i int))

// inTurn is an Each without goroutines.
func inTurn(n int, read, take func(int)) {
	for i := range n {
		read(i)
		take(i)
	}
}

// Restore fills an empty state from a snapshot. each decodes the reservations. Default: one after the other.
func (s *State) Restore(data []byte, each Each) error {
	if each == nil {
		each = inTurn
	}
	if s.restoreInPieces(data, each) == nil {
		return nil
	}
	*s = *New(s.Self)
	var in snapshot
	if err := payload.Read(data, &in); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return s.fill(in)
}

// restoreInPieces decodes the reservations in pieces, and adds the records of one piece while each
// decodes the next ones. It fails if the snapshot is not valid, or was cut at a wrong place.
func (s *State) restoreInPieces(data []byte, each Each) (err error) {
	rest, pieces := cutReservations(data)
	var in snapshot
	read, failed := make([][]kept, len(pieces)), make([]error, 1+len(pieces))
	each(1+len(pieces), func(i int) {
		if i == 0 {
			failed[0] = payload.Read(rest, &in)
		} else {
			failed[i] = payload.Read(slices.Concat([]byte("["), pieces[i-1], []byte("]")), &read[i-1], payload.Sharing())
		}
	}, func(i int) {
		if err = cmp.Or(err, failed[i]); err != nil {
			return
		}
		if i == 0 {
			err = s.fill(in)
			return
		}
		if i == 1 { // the other pieces have about as many
			s.reservations = make(map[string]*Reservation, len(pieces)*len(read[0]))
			s.keys = make(map[ownKey]string, len(pieces)*len(read[0]))
		}
		err = s.fillReservations(read[i-1])
		read[i-1] = nil
	})
	return err
}

// pieceSize is the approximate size of a piece of a snapshot, in bytes.
const pieceSize = 1 << 20

// cutReservations cuts the reservations of a snapshot into pieces. rest is the snapshot without them. It
// searches for the first field of a reservation. Inside a text, the quotes would be escaped.
func cutReservations(data []byte) (rest []byte, pieces [][]byte) {
	const first, next = `"reservations":[{"id":`, `},{"id":`
	begin := bytes.Index(data, []byte(first))
	if begin < 0 {
		return data, nil
	}
	begin += len(`"reservations":[`)
	last := begin
	if at := bytes.LastIndex(data[begin:], []byte(next)); at >= 0 {
		last += at + len("},")
	}
	in := json.NewDecoder(bytes.NewReader(data[last:]))
	if in.Decode(&json.RawMessage{}) != nil {
		return data, nil
	}
	end := last + int(in.InputOffset())
	rest = slices.Concat(data[:begin], data[end:])
	for ; end-begin > pieceSize; begin += len(pieces[len(pieces)-1]) + len(",") {
		size := bytes.Index(data[begin+pieceSize:end], []byte(next))
		if size < 0 {
			break
		}
		pieces = append(pieces, data[begin:begin+pieceSize+size+len("}")])
	}
	return rest, append(pieces, data[begin:end])
}

func (s *State) fill(in snapshot) error {
	for _, m := range in.Members {
		if m == nil {
			return errors.New("snapshot: an empty member")
		}
		s.members[m.Cluster] = m
		s.touch(s.provider(m.Cluster))
	}
	for _, t := range in.Tokens {
		if t == nil {
			return errors.New("snapshot: an empty token")
		}
		s.putToken(t)
	}
	s.spend(in.Spent, 0)
	s.pass(in.Passed, 0)
	for _, o := range in.Offers { // before what was made from them
		if o == nil {
			return errors.New("snapshot: an empty offer")
		}
		s.putOffer(o)
	}
	if err := s.fillReservations(in.Reservations); err != nil {
		return err
	}
	for _, p := range in.Presences {
		if p == nil {
			return errors.New("snapshot: an empty presence")
		}
		s.provider(p.Cluster).presence = p
		s.touch(s.provider(p.Cluster))
	}
	for _, r := range in.Records {
		if r == nil {
			return errors.New("snapshot: an empty record")
		}
		s.provider(r.Cluster).record = r
		s.touch(s.provider(r.Cluster))
	}
	s.awake.total, s.awake.newest, s.awake.told = in.Awake, in.Awake, in.Awake
	s.Revision, s.Time, s.operators = in.Revision, in.Time, in.Operators
	return nil
}

func (s *State) fillReservations(all []kept) error {
	for _, k := range all {
		if k.Reservation == nil {
			return errors.New("snapshot: an empty reservation")
		}
		s.put(&k.ReservationEvent, k.Revision)
	}
	return nil
}
