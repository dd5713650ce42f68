package gate

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// refusals are the errors that are an answer to the consumer, and the reason that the consumer reads.
var refusals = map[api.Code]api.Reason{
	api.CodeInsufficient:   api.ReasonInsufficient,
	api.CodeForbidden:      api.ReasonPolicy,
	api.CodeNotFound:       api.ReasonNothingShared,
	api.CodeKeyChanged:     api.ReasonKeyChanged,
	api.CodeKeyUnconfirmed: api.ReasonKeyUnconfirmed,
	api.CodeBadSignature:   api.ReasonBadAssignment,
	api.CodeInvalid:        api.ReasonBadAssignment,
	api.CodeConflict:       api.ReasonBadAssignment,
	api.CodeLedgerFull:     api.ReasonLedgerFull,
	api.CodeSuspended:      api.ReasonSuspended,
}

// answerHold accepts or refuses a held reservation, or a change of a bound one.
func (g *Gate) answerHold(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if ours != nil && ours.State == api.Held && ours.Generation < theirs.Payload.Generation {
		return g.undoAcceptance(ctx, theirs.ID) // the consumer signed again; the undoing brings us here again
	}
	if ours != nil && ours.Assignment == theirs.Payload.Assignment {
		switch {
		case ours.AwaitsApproval():
			return nil // the admin has not answered yet
		case ours.Denied():
			return g.sendDenial(ctx, theirs, ours)
		}
	}
	acceptance := ours.AnswerTo(theirs.Payload.Assignment) // sent before, and lost
	if acceptance == "" {
		var err error
		if acceptance, err = g.admit(ctx, theirs, ours, false); err != nil {
			return g.refuse(ctx, theirs, err)
		}
		if acceptance == "" {
			return nil // the admin has not answered yet
		}
	}
	committed, err := g.Broker.Accept(ctx, theirs.ID, acceptance)
	switch {
	case transport.IsGone(err) && ours != nil && ours.Bound():
		return nil // the broker may have recorded the change: the next event says
	case transport.IsGone(err): // the broker moved on: our acceptance binds nobody
		return g.undoAcceptance(ctx, theirs.ID)
	case err != nil:
		return err
	case committed.Payload.State != api.Reserved && committed.Payload.State != api.Active:
		return nil // the broker recorded it, and it has changed since: the next event says how
	}
	return g.commit(ctx, &committed, &market.Reservation{ID: theirs.ID, State: api.Held})
}

// refuse sends a refusal, with its cause and what the cluster has now. It returns the cause if
// another try may help.
func (g *Gate) refuse(ctx context.Context, theirs *transport.Reservation, cause error) error {
	reason, known := refusals[api.CodeOf(cause)]
	if !known {
		return cause
	}
	refusal := api.Refusal{Generation: theirs.Payload.Generation, Reason: reason, Message: trust.Text(cause.Error())}
	if g.Fresh != nil && reason == api.ReasonInsufficient {
		refusal.Advertisement = g.Fresh(ctx, g.via)
	}
	g.Log.Info("refused",
		"reservation", theirs.ID, "consumer", theirs.Payload.Consumer, "reason", reason, "cause", cause)
	_, err := g.Broker.Refuse(ctx, theirs.ID, refusal)
	return transport.IgnoreGone(err)
}

// followBound follows a reservation to which both sides are bound.
func (g *Gate) followBound(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t, pending := theirs.Payload, ours.Changing()
	if err := g.syncReclaim(ctx, theirs, ours); err != nil {
		return err
	}
	switch {
	case ours.AwaitsApproval() && ours.Generation == t.Generation:
		return g.restoreApproval(ctx, theirs, ours)
	case pending != nil && pending.Generation == t.Generation:
		return g.commit(ctx, theirs, ours)
	case t.Generation > ours.Generation:
		err := g.adopt(ctx, theirs)
		if isFinal(err) { // what this gate accepted before still binds it
			g.Log.Warn("the broker shows a change that cannot be restored", "reservation", ours.ID, "error", err)
			return nil
		}
		return err
	case ours.Bound() && t.Change.Pending() && (t.Change.Generation > ours.Generation ||
		ours.AnswerTo(t.Change.Assignment) != ""):
		hold := *theirs
		hold.Payload.State = api.Held
		hold.Payload.Generation, hold.Payload.Assignment = t.Change.Generation, t.Change.Assignment
		return g.answerHold(ctx, &hold, ours)
	case pending != nil: // the broker no longer waits for the change
		return g.undoAcceptance(ctx, ours.ID)
	default:
		return g.commit(ctx, theirs, ours)
	}
}

// commit makes an acceptance, or a change, bind for the whole reservation.
func (g *Gate) commit(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	if ours.State != api.Held && ours.Changing() == nil {
		return g.showActive(ctx, theirs, ours)
	}
	_, err := g.Market.Do(ctx, market.Commit{ID: ours.ID, Generation: t.Generation, Fence: t.Fence})
	return err
}

// showActive records that the consumer uses a reservation, so that it has one state everywhere. That is the
// broker's word, and nothing depends on it.
func (g *Gate) showActive(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if theirs.Payload.State != api.Active || ours.State != api.Reserved {
		return nil
	}
	_, err := g.Market.Do(ctx, market.Activate{ID: ours.ID, Consumer: ours.Consumer})
	return err
}

// undoAcceptance removes an acceptance, or a change, that was not committed. What is committed stays.
func (g *Gate) undoAcceptance(ctx context.Context, id string) error {
	var ours *market.Reservation
	if err := g.Market.Read(ctx, func(s *market.State) { ours = s.Reservation(id) }); err != nil {
		return err
	}
	var undo market.Command
	switch {
	case ours == nil:
		return nil
	case ours.State == api.Held:
		undo = market.Release{ID: id, By: g.Cluster, Reason: api.ReasonNotAccepted}
	case ours.Changing() != nil:
		undo = market.Refuse{ID: id, By: g.Cluster, Generation: ours.Change.Generation, Reason: api.ReasonNotAccepted}
	default:
		return nil
	}
	// Only at this revision: a commit since then must not be undone.
	_, err := g.Market.Do(ctx, market.IfRevision{ID: id, Revision: ours.Revision, Command: undo})
	return err
}
