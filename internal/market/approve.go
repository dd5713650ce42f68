package market

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// notApproved is the message after the time to approve.
const notApproved = "nobody there approved it in time"

// AwaitsApproval reports whether the consumer has signed, and an admin of the provider has not approved yet.
func (r *Reservation) AwaitsApproval() bool {
	return r.State == api.Held && r.ApproveBy != 0 && r.Assignment != "" && r.Acceptance == ""
}

// answerBy is the deadline for the provider's answer to a hold.
func (r *Reservation) answerBy() Time { return cmp.Or(r.ApproveBy, r.HeldUntil) }

// approveBy returns the deadline for an admin's approval of r, 0 if none is needed. The offer sets
// it or, without a purchase, the provider's terms. It is at most MaxApproval after r was made, over
// all providers that are tried.
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

// checkApproval reports why a time to approve is not valid, or nil. Errors: Invalid at field.
func checkApproval(field string, within *metav1.Duration) error {
	if within == nil || within.Duration >= MinApproval && within.Duration <= MaxApproval {
		return nil
	}
	return api.Invalid(field, "%s", within.Duration).Fix("give %s to %s, or leave it out if no approval is needed",
		MinApproval, MaxApproval)
}

// Approve records, at a gate, that its admin approves a reservation. It binds the provider from now
// on. Errors: NotFound; Conflict if the reservation does not await approval at this generation.
type Approve struct {
	ID         string
	Generation int64
	// Acceptance is signed by the gate.
	Acceptance string
}

func (c Approve) decide(s *State, now Time) (Outcome, error) {
	if r := s.reservations[c.ID]; r != nil && r.Provider == s.Self && r.Generation == c.Generation &&
		r.Acceptance != "" && (r.Bound() || r.State == api.Held) {
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

// Deny records that the admin refuses. It is kept until the broker knows it. Errors: as Approve.
type Deny struct {
	ID         string
	Generation int64
	Message    string
}

func (c Deny) decide(s *State, now Time) (Outcome, error) {
	if r := s.reservations[c.ID]; r != nil && r.Denied() && r.Generation == c.Generation && r.Message == c.Message {
		return unchanged(r)
	}
	r, err := s.awaiting(c.ID, c.Generation)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Acceptance != "":
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s has been approved", r.ID).
			Fix("end it, once it is Reserved: bourse evict %s", r.Consumer)
	}
	return over(r, api.Failed, api.ReasonNotApproved, c.Message, now), nil
}

// Denied reports, at a gate, that the admin refused the reservation or did not approve it in time.
func (r *Reservation) Denied() bool {
	return r.State == api.Failed && r.Reason == api.ReasonNotApproved && r.Assignment != ""
}

// awaiting returns a reservation that awaits, or awaited, approval at this gate.
func (s *State) awaiting(id string, generation int64) (*Reservation, error) {
	r, err := s.find(id, s.Self)
	switch {
	case err != nil:
		return nil, err
	case r.State.Over():
		return nil, api.Errorf(api.CodeConflict, "reservation %s has ended already: it is %s", r.ID, r.State).
			Fix("see what waits: bourse approvals")
	case r.Provider != s.Self || r.State != api.Held || r.ApproveBy == 0 || r.Generation != generation:
		return nil, api.Errorf(api.CodeConflict,
			"reservation %s is %s at generation %d: it does not wait for an approval of %d",
			r.ID, r.State, r.Generation, generation).FixBy("see what waits", "bourse", "approvals")
	}
	return r, nil
}

// Patience returns how long an assignment may wait for its provider's answer if an admin approves it within a
// time. Nil: no approval is needed.
func Patience(within *metav1.Duration) time.Duration {
	patience := DecideTime + SkewGrace
	if within != nil {
		patience += min(within.Duration, MaxApproval)
	}
	return patience
}
