package market

import (
	"fmt"

	"github.com/bourse-dev/bourse/internal/payload"
)

// Event is a change of the market. Exactly one field is set: the new record, which replaces the old one.
// Journals hold events, so no field ever gets another meaning.
type Event struct {
	Time        Time              `json:"time"`
	Member      *Member           `json:"member,omitempty"`
	Token       *Token            `json:"token,omitempty"`
	Reservation *ReservationEvent `json:"reservation,omitempty"`
	Offer       *Offer            `json:"offer,omitempty"`
	// Forget names records that have been over for the time of retention.
	Forget *Forget `json:"forget,omitempty"`
	// Leases names the members whose leases ended or began.
	Leases *Leases `json:"leases,omitempty"`
	// Operators says which certificates of operators are valid.
	Operators *Operators `json:"operators,omitempty"`
}

// ReservationEvent is the new record of a reservation, with the decision if one was made.
type ReservationEvent struct {
	*Reservation
	Why Why `json:"decision,omitempty"`
}

// Forget names records that are dropped.
type Forget struct {
	Reservations []string `json:"reservations,omitempty"`
	Tokens       []string `json:"tokens,omitempty"`
	// Offers are digests.
	Offers []string `json:"offers,omitempty"`
	// Spent are those of Reservations whose documents could be shown again.
	Spent []Spent `json:"spent,omitempty"`
	// Passed replaces the oldest of what is spent.
	Passed []Passed `json:"passed,omitempty"`
}

// Append appends the encoded event.
func (e Event) Append(to []byte) ([]byte, error) { return payload.Append(to, &e) }

// EventReader decodes the events of a journal. Equal resources share memory. It is for one goroutine.
type EventReader struct{ sharing payload.Options }

// NewEventReader returns an EventReader.
func NewEventReader() *EventReader { return &EventReader{payload.Sharing()} }

// Read decodes the next event. It refuses unknown fields, which a later version wrote: dropping them would
// lose data.
func (r *EventReader) Read(data []byte) (Event, error) {
	var e Event
	if err := payload.Read(data, &e, r.sharing); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	set := 0
	for _, present := range []bool{
		e.Member != nil, e.Token != nil, e.Reservation != nil, e.Offer != nil, e.Forget != nil, e.Leases != nil,
		e.Operators != nil,
	} {
		if present {
			set++
		}
	}
	if set != 1 || e.Reservation != nil && e.Reservation.Reservation == nil {
		return Event{}, fmt.Errorf("event: %d facts in one event, want 1", set)
	}
	return e, nil
}
