package market

import (
	"time"

	"github.com/bourse-dev/bourse/api"
)

// due says when time alone changes a reservation or ends a join token. Each has one entry, which is in
// [State.due] unless at is 0. So there are never more entries than records.
type due struct {
	at    Time
	id    string
	token bool
}

// before orders by time, then by ID, so that two machines expire in the same order.
func (d *due) before(o *due) bool {
	return d.at < o.at || d.at == o.at && (d.id < o.id || d.id == o.id && d.token && !o.token)
}

// next returns when time alone changes the reservation; 0: never.
func (s *State) next(r *Reservation) Time {
	switch provider := s.Self == r.Provider; {
	case r.State.Over() && s.isCrowded(r.Consumer) && s.oldest(r.Consumer) == r:
		return atOnce
	case r.State.Over():
		return max(r.Changed.plus(s.retention()), r.RememberUntil)
	case s.debtOf(r) != nothing:
		return atOnce
	case r.State == api.Releasing && s.Self == "":
		return max(r.Ended, r.Created).plus(FreeTime)
	case r.State == api.Releasing && provider: // the gate waits for its own cluster
		return 0
	case r.State == api.Releasing:
		return max(r.Ended, r.EndsAt()).plus(FreeTime)
	case s.Self == "" && r.State == api.Pending:
		return r.WaitUntil
	case r.State == api.Pending:
		return r.WaitUntil.plus(DecideTime)
	case s.Self == "" && r.State == api.Held, s.Self != "" && provider && r.State == api.Held:
		return r.HeldUntil
	case s.Self != "" && provider:
		if c := r.Changing(); c != nil { // accepted, and perhaps recorded by the broker
			return r.endOf(max(r.Until, c.Until)).plus(SkewGrace)
		}
		return r.EndsAt().plus(SkewGrace)
	case s.Self != "" && r.State == api.Held: // a consumer's own hold: nobody can accept it any more
		return max(r.HeldUntil, r.ApproveBy).plus(DecideTime)
	case s.Self == "" && r.Changing() != nil:
		return min(r.EndsAt(), r.Change.HeldUntil)
	default:
		return r.EndsAt()
	}
}

// retention returns how long a reservation that is over is kept. An agent, whose Ledger is small,
// keeps it for an hour, and then what [State.spend] needs.
func (s *State) retention() time.Duration {
	if s.Self != "" {
		return time.Hour
	}
	return Retention
}

// forgetAt returns when the token may be forgotten.
func (t *Token) forgetAt() Time { return t.Expires.plus(Retention) }

// await sets when d is due; 0: never.
func (s *State) await(d *due, at Time) {
	if d.at == at {
		return
	}
	if d.at != 0 {
		s.due.Delete(d)
	}
	if d.at = at; at != 0 {
		s.due.ReplaceOrInsert(d)
	}
}
