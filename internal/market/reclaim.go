package market

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// MaxNotice and MinNotice bound the notice of a plan.
const (
	MaxNotice = 720 * time.Hour
	MinNotice = time.Minute
)

// Notice returns how long before the end a seller must announce to take a contract back; 0: it may not.
func (r *Reservation) Notice() time.Duration {
	if p := r.Bought(); p != nil && p.Notice != nil {
		return p.Notice.Duration
	}
	return 0
}

// EndsAt returns when the reservation ends: at its time, or when its seller takes it back.
func (r *Reservation) EndsAt() Time { return r.endOf(r.Until) }

// LastsUntil returns when the reservation ends or, if its end began before, when that was.
func (r *Reservation) LastsUntil() Time {
	if r.Ended != 0 {
		return min(r.Ended, r.EndsAt())
	}
	return r.EndsAt()
}

func (r *Reservation) endOf(until Time) Time {
	if r.ReclaimAt != 0 {
		return min(until, r.ReclaimAt)
	}
	return until
}

// Breached reports whether the provider ended a contract against its terms.
func (r *Reservation) Breached() bool {
	return r.Sale != nil && r.Reason == api.ReasonRevokedByProvider
}

// checkNotice reports why a notice is not valid, or nil. Errors: Invalid at field.
func checkNotice(field string, notice *metav1.Duration) error {
	if notice == nil || notice.Duration >= MinNotice && notice.Duration <= MaxNotice {
		return nil
	}
	return api.Invalid(field, "%s", notice.Duration).Fix("give %s to %s, or leave it out if contracts last to their end",
		MinNotice, MaxNotice)
}

// Reclaim takes a contract back: it ends at At, if not before. Signature and notice were verified. The first
// Reclaim stands. Errors: NotFound; Forbidden for others than the seller, and for a plan without notice;
// Conflict if it is not bound.
type Reclaim struct {
	ID, By   string
	At       Time
	Document string
}

func (c Reclaim) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.By)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Provider != c.By:
		return Outcome{}, api.Errorf(api.CodeForbidden, "only the seller takes a contract back").
			Fix("end it: bourse release %s", r.ID)
	case r.Notice() == 0:
		return Outcome{}, api.Errorf(api.CodeForbidden, "reservation %s has no notice: it lasts to its end", r.ID).
			Fix("to end it anyway, with everything that the consumer has here: bourse evict %s", r.Consumer)
	case r.Reclaim != "":
		return unchanged(r)
	case !r.Bound():
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s: only what is bound is taken back", r.ID,
			r.State)
	}
	r.Reclaim, r.ReclaimAt = c.Document, c.At
	return changed(r, now), nil
}
