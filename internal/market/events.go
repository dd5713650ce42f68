package market

import (
	"fmt"

	"github.com/bourse-dev/bourse/internal/payload"
)

// Event is a fact of the market. Exactly one field is set: what is now true in
// place of what was. Events are what a journal keeps, so a field is never given
// another meaning; a new one is added.
type Event struct {
	Time        Time              `json:"time"`
	Member      *Member           `json:"member,omitempty"`
	Token       *Token            `json:"token,omitempty"`
	Reservation *ReservationEvent `json:"reservation,omitempty"`
	Offer       *Offer            `json:"offer,omitempty"`
	// Forget names what has been over for the time of retention.
	Forget *Forget `json:"forget,omitempty"`
	// Leases is what the broker noticed of its members' leases.
	Leases *Leases `json:"leases,omitempty"`
	// Operators is which certificates of operators are good.
	Operators *Operators `json:"operators,omitempty"`
}

// ReservationEvent is a reservation as it is now, with the decision if one was made.
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
	// Passed take the place of the oldest of what is spent.
	Passed []Passed `json:"passed,omitempty"`
}

// Append appends the form of an event in a journal.
func (e Event) Append(to []byte) ([]byte, error) { return payload.Append(to, &e) }

// DecodeEvent reads an event back. It refuses what it does not know: dropping a field that a later
// version wrote would be forgetting.
func DecodeEvent(data []byte) (Event, error) { return NewEventReader().Read(data) }

// EventReader reads the events of a journal back. Events with the same resources share them.
type EventReader struct{ sharing payload.Options }

// NewEventReader makes one. It is for one goroutine.
func NewEventReader() *EventReader { return &EventReader{payload.Sharing()} }

// Read reads the next event, as [DecodeEvent] does.
func (r *EventReader) Read(data []byte) (Event, error) {
	var e Event
	if err := payload.Read(data, &e, r.sharing); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	set := 0
	for _, is := range []bool{e.Member != nil, e.Token != nil, e.Reservation != nil, e.Offer != nil, e.Forget != nil, e.Leases != nil, e.Operators != nil} {
		if is {
			set++
		}
	}
	if set != 1 || e.Reservation != nil && e.Reservation.Reservation == nil {
		return Event{}, fmt.Errorf("event: %d facts in one event, want 1", set)
	}
	return e, nil
}
