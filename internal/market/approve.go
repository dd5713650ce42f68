package market

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// notApproved is what is said where time ran out.
const notApproved = "nobody there approved it in time"

// AwaitsApproval says whether a person at the provider has yet to approve the reservation, which its consumer has signed.
func (r *Reservation) AwaitsApproval() bool {
	return r.State == api.Held && r.ApproveBy != 0 && r.Assignment != "" && r.Acceptance == ""
}

// answerBy is when the provider's answer to a hold must have come.
func (r *Reservation) answerBy() Time {
	if r.ApproveBy != 0 {
		return r.ApproveBy
	}
	return r.HeldUntil
}

// approveBy is until when a person at the provider that r is held on may approve it, 0 if nobody need: as its offer says or, where
// it is from none, the provider's terms. Over all providers that are tried it is no later than MaxApproval after it was made.
func (s *State) approveBy(r *Reservation, now Time) Time {
	var within *metav1.Duration
	if r.Sale != nil {
		if o := s.offers[r.Sale.Offer]; o != nil {
			within = o.Signed.Offer.ApproveWithin
		}
	} else if m := s.provider(r.Provider).measured; m != nil && m.Terms != nil {
		within = m.Terms.ApproveWithin
	}
	if within == nil {
		return 0
	}
	return min(now.plus(within.Duration), r.Created.plus(MaxApproval), r.Until) / 1000 * 1000
}

// checkApproval says what of a time to approve cannot be. Errors: Invalid with the field.
func checkApproval(field string, within *metav1.Duration) error {
	if within == nil || within.Duration >= MinApproval && within.Duration <= MaxApproval {
		return nil
	}
	return api.Invalid(field, "%s", within.Duration).Fix("give %s to %s, or nothing where nobody need approve", MinApproval, MaxApproval)
}

// Approve is, at a gate, the word of a person there that a reservation is accepted, which was admitted without an acceptance: it
// binds the provider from now on. Errors: NotFound; Conflict where it does not wait for that, or waits for it at another generation.
type Approve struct {
	ID         string
	Generation int64
	// Acceptance is the gate's signed answer.
	Acceptance string
}

func (c Approve) decide(s *State, now Time) (Outcome, error) {
	if r := s.reservations[c.ID]; r != nil && r.Provider == s.Self && r.Generation == c.Generation && r.Acceptance != "" && (r.Bound() || r.State == api.Held) {
		return unchanged(r)
	}
	r, err := s.awaiting(c.ID, c.Generation)
	if err != nil {
		return Outcome{}, err
	}
	if err := s.checkSuspension(r.Consumer); err != nil {
		return Outcome{}, err
	}
	r.Acceptance = c.Acceptance
	return changed(r, now), nil
}

// Deny is the same person's no. It is remembered, so that the broker can be told later. Errors: as Approve's.
type Deny struct {
	ID         string
	Generation int64
	Message    string
}

func (c Deny) decide(s *State, now Time) (Outcome, error) {
	if r := s.reservations[c.ID]; r != nil && r.Denied() && r.Generation == c.Generation {
		return unchanged(r)
	}
	r, err := s.awaiting(c.ID, c.Generation)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Acceptance != "":
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s has been approved", r.ID).Fix("end it, once it is Reserved: bourse evict %s", r.Consumer)
	}
	return over(r, api.Failed, api.ReasonNotApproved, c.Message, now), nil
}

// Denied says, at a gate, that nobody approved the reservation, or somebody said no.
func (r *Reservation) Denied() bool {
	return r.State == api.Failed && r.Reason == api.ReasonNotApproved && r.Assignment != ""
}

// awaiting is a reservation that waits, or waited, at this gate for its approval.
func (s *State) awaiting(id string, generation int64) (*Reservation, error) {
	r, err := s.find(id, s.Self)
	switch {
	case err != nil:
		return nil, err
	case r.Provider != s.Self || r.State != api.Held || r.ApproveBy == 0 || r.Generation != generation:
		return nil, api.Errorf(api.CodeConflict, "reservation %s is %s at generation %d: it does not wait for an approval of %d", r.ID, r.State, r.Generation, generation).
			Fix("see what waits: bourse approvals")
	}
	return r, nil
}

// Patience is the longest that an assignment may wait for its provider's answer, where a person there may take that long to approve
// it; nil: a machine answers.
func Patience(within *metav1.Duration) time.Duration {
	patience := DecideTime + SkewGrace
	if within != nil {
		patience += min(within.Duration, MaxApproval)
	}
	return patience
}
