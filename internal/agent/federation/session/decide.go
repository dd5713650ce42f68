package session

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Decides reports whether the broker's word counts for a reservation. Each has one broker, at which it was
// made. ours is the Ledger's record; nil: it is new. Signed documents count from every broker.
func (s *Session) Decides(theirs *transport.Reservation, ours *market.Reservation) bool {
	switch {
	case !s.Lends && (ours == nil && theirs.Payload.Provider == s.Cluster || ours != nil && ours.Provider == s.Cluster):
		return false
	case ours == nil:
		return true
	// the own connector shows what consumers signed there
	case ours.Via == s.Via, s.Via == s.Cluster && ours.Provider == s.Cluster:
		return true
	case IsBroker(ours.Via) && s.Via == ours.Provider: // the seller's connector, in place of a broker that is lost
		return ours.Acceptance != ""
	case ours.Via == s.Cluster && IsBroker(s.Via): // the Ledger lost it, and the connector was the first to show it
		change := theirs.Payload.Change
		return ours.AnswerTo(theirs.Payload.Assignment) != "" || change != nil && ours.AnswerTo(change.Assignment) != ""
	}
	return false
}

// Knows reports whether the broker knows a reservation of this cluster's capacity: it was made there, or the
// broker has shown what the consumer signed. This cluster's own connector knows all.
func (s *Session) Knows(ours *market.Reservation) bool {
	if ours.Via == s.Via || s.Via == s.Cluster {
		return true
	}
	theirs := s.Shown(ours.ID)
	return theirs != nil && ours.AnswerTo(theirs.Payload.Assignment) != ""
}

// IsMissing reports whether the broker should know a reservation that it does not show: both parties signed
// it, and it was made there, or with the seller whose connector takes the place of a broker.
func (s *Session) IsMissing(ours *market.Reservation) bool {
	return ours != nil && s.lacks(ours.ID) && ours.Acceptance != "" && ours.Assignment != "" &&
		(ours.Bound() || ours.State == api.Releasing) && (ours.Via == s.Via ||
		IsBroker(ours.Via) && s.Via == ours.Provider && ours.Provider != s.Cluster)
}

// ShowAgreement shows the broker a reservation that it misses, with what both parties signed.
func (s *Session) ShowAgreement(ctx context.Context, ours *market.Reservation) error {
	agreement := api.Agreement{Assignment: ours.Assignment, Acceptance: ours.Acceptance}
	if ours.Offer != nil {
		agreement.Offer = ours.Offer.Document
	}
	own := agreement.Assignment
	if ours.Provider == s.Cluster {
		own = agreement.Acceptance
	}
	vouch, err := trust.Vouch(s.Key, s.Cluster, ours.ID, agreement.Assignment, own)
	if err != nil {
		return err
	}
	agreement.Vouch = vouch
	theirs, err := s.Broker.Adopt(ctx, ours.ID, agreement)
	if err == nil {
		s.record(&theirs, true) // what the watch has shown since then is newer
	}
	return err
}
