package reservations

import (
	"context"
	"errors"

	"github.com/bourse-dev/bourse/api"
)

// FindUnknown returns the reservations that this cluster signed as their consumer and that its Ledger does not know, by
// ID. The Ledger lost them, and with them their request. Errors: those of the Ledger.
func (r *Reservations) FindUnknown(ctx context.Context) (map[string]api.Reservation, error) {
	found := map[string]api.Reservation{}
	for _, s := range r.options.Sessions.Open() {
		for _, shown := range s.AllShown() {
			if shown.Payload.Consumer != r.options.Cluster || !shown.Payload.State.Counts() {
				continue
			}
			record, err := r.options.Ledger.Reservation(ctx, shown.ID)
			if err != nil {
				return nil, err
			}
			if record == nil && r.borrowerAt(s).HasSigned(ctx, shown) { // a signature is checked only where one may be lost
				found[shown.ID] = shown.Payload
			}
		}
	}
	return found, nil
}

// EndUnknown ends such a reservation at each broker that shows it. Errors: NotFound if this cluster did not sign it;
// Conflict if the Ledger knows it; the broker's.
func (r *Reservations) EndUnknown(ctx context.Context, id string) error {
	record, err := r.options.Ledger.Reservation(ctx, id)
	if err != nil {
		return err
	}
	if record != nil && record.Object != nil && record.State.Counts() {
		return api.Errorf(api.CodeConflict, "reservation %s has the request %s/%s", id, record.Object.Namespace,
			record.Object.Name).FixBy("", "bourse", "release", id)
	}
	asked, failed := false, error(nil)
	for _, s := range r.options.Sessions.Open() {
		if s.Via != r.options.Cluster && s.Shown(id) != nil {
			asked = true
			failed = errors.Join(failed, r.borrowerAt(s).EndSigned(ctx, id))
		}
	}
	if !asked { // the main broker has it or says why not
		return r.options.Consumer.Borrower.EndSigned(ctx, id)
	}
	return failed
}
