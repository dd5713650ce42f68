package requests

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// showState writes the status of a request, an Event for each new state, and the instructions of
// parts that are bound. cannot says why the reservation cannot become what the request asks for
// now, nil if it can.
func (r *Controller) showState(
	ctx context.Context, object *api.ResourceRequest, parts []*market.Reservation, cannot error,
) error {
	instructions, err := r.readInstructions(ctx, object, parts)
	if err != nil {
		return err
	}
	record := mergeParts(parts)
	status := object.Status.DeepCopy()
	status.State, status.Reservation, status.Provider = record.State, record.ID, record.Provider
	status.Until, status.Resources, status.Message = nil, sizeInForce(parts).Resources(), describe(record)
	showInForce(status, record)
	showParts(status, parts)
	kind := corev1.EventTypeNormal
	if record.Bound() {
		asAsked := upToDateCondition(record, WishOf(object), cannot)
		asAsked.ObservedGeneration = object.Generation
		meta.SetStatusCondition(&status.Conditions, asAsked)
		if asAsked.Status == metav1.ConditionFalse && asAsked.Reason != api.Changing {
			kind = corev1.EventTypeWarning
			status.Message += "; " + asAsked.Message
		}
		if l := r.Market.View().Listing(record.Provider); l != nil && l.Member != nil && l.Member.Legacy {
			status.Message += "; its agent is a prototype: an admin peers the two clusters (docs/migrate.md)"
		}
	} else {
		meta.RemoveStatusCondition(&status.Conditions, api.ConditionUpToDate)
	}
	if ends := record.LastsUntil().Meta(); !ends.IsZero() && (record.State.Counts() || record.State == api.Released) {
		status.Until = &ends
	}
	reason := cmp.Or(string(record.Reason), string(record.State))
	bound := metav1.Condition{
		Type: api.ConditionReserved, Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: object.Generation,
	}
	if record.State.Over() && record.State != api.Released || endedByOthers(record) {
		kind = corev1.EventTypeWarning
	}
	ready := bound
	ready.Type = api.ConditionReady
	if record.State == api.Reserved || record.State == api.Active {
		bound.Status, ready.Status = metav1.ConditionTrue, metav1.ConditionTrue
		why, unused := findUnused(parts, instructions)
		if r.untilLast(record) <= 0 {
			kind = corev1.EventTypeWarning
			status.Message += "; it ends soon: to ask for more time, bourse extend " + record.ID + " --by 1h"
		}
		if why != "" {
			kind = corev1.EventTypeWarning
			ready.Status, ready.Reason = metav1.ConditionFalse, why
			status.Message += "; " + unused
		}
	}
	bound.Message, ready.Message = status.Message, status.Message
	meta.SetStatusCondition(&status.Conditions, bound)
	meta.SetStatusCondition(&status.Conditions, ready)
	showAwaitsApproval(object, status, record, reason)
	showLabelsDropped(object, status, parts, instructions)
	r.warnOfEnd(ctx, object, status, parts)
	if err := r.writeStatus(ctx, object, *status, kind, string(record.State)); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Acceptance == "" {
			continue
		}
		if err := r.showInstruction(ctx, object, part); err != nil {
			return err
		}
	}
	return nil
}

// showAwaitsApproval shows whether an admin of the provider must approve a reservation, once that was so.
func showAwaitsApproval(object *api.ResourceRequest, status *api.ResourceRequestStatus, record *market.Reservation,
	reason string) {
	known := meta.FindStatusCondition(status.Conditions, api.ConditionAwaitsApproval) != nil
	if awaits := record.AwaitsApproval(); awaits || known {
		c := metav1.Condition{
			Type: api.ConditionAwaitsApproval, Status: metav1.ConditionFalse,
			Reason: reason, ObservedGeneration: object.Generation,
		}
		if awaits {
			c.Status, c.Message = metav1.ConditionTrue, status.Message
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// showInForce shows of what is in force when it began, its generation, and how many units it has.
func showInForce(status *api.ResourceRequestStatus, record *market.Reservation) {
	status.Began, status.Generation, status.Units = nil, 0, 0
	if len(status.Resources) == 0 {
		return
	}
	began := metav1.NewTime(record.Created.Go().Truncate(time.Second)) // as it is stored: else it differs each time
	if status.Began, status.Generation = &began, record.Generation; record.Sale != nil {
		status.Units = record.Sale.Units
	}
}

// showParts shows the reservations of a request that is split.
func showParts(status *api.ResourceRequestStatus, parts []*market.Reservation) {
	status.Parts = nil
	for _, part := range parts {
		if len(part.Group) < 2 {
			return
		}
		status.Parts = append(status.Parts, api.RequestPart{Reservation: part.ID, State: part.State,
			Provider: part.Provider, Resources: part.Size.Resources()})
	}
}

// sizeInForce returns the sum of the parts that both clusters signed and that are not over.
func sizeInForce(parts []*market.Reservation) (sum amounts.List) {
	for _, part := range parts {
		if part.Bound() || part.State == api.Releasing && part.Acceptance != "" {
			sum = sum.Plus(part.Size)
		}
	}
	return sum
}

// upToDateCondition returns the condition that says whether a bound reservation is what its request
// asks for now.
func upToDateCondition(record *market.Reservation, w Wish, cannot error) metav1.Condition {
	c := metav1.Condition{Type: api.ConditionUpToDate, Status: metav1.ConditionFalse}
	want, err := wantedChange(w, record)
	if cannot == nil {
		cannot = err
	}
	switch change := record.Change; {
	case record.Changing() != nil:
		c.Reason, c.Message = api.Changing, record.Provider+" is asked to accept the change"
	case cannot != nil:
		c.Reason, c.Message = string(api.CodeOf(cannot)), "it cannot change: "+trust.Text(cannot.Error())
	case sameChange(want, record.Unchanged()):
		c.Status, c.Reason = metav1.ConditionTrue, "UpToDate"
	case change != nil && sameChange(want, *change):
		c.Reason, c.Message = string(change.Reason), "it is not changed: "+string(change.Reason)
		if change.Message != "" {
			c.Message += ": " + api.WithoutCode(change.Message)
		}
	default:
		c.Reason, c.Message = api.Changing, "the agent is about to ask for the change"
	}
	return c
}

// describe returns a sentence that says in which state a reservation is.
func describe(r *market.Reservation) string {
	s := ""
	switch r.State {
	case api.Pending:
		s = fmt.Sprintf("no cluster can serve it now; it waits for one until %s", r.WaitUntil.Go().Format(time.RFC3339))
	case api.Held:
		s = fmt.Sprintf("held on %s, which is asked to accept", r.Provider)
		if r.AwaitsApproval() {
			s = fmt.Sprintf("waits for the approval of %s's admin until %s", r.Provider, r.ApproveBy.Go().Format(time.RFC3339))
		}
		if r.Assignment == "" {
			s = fmt.Sprintf("held on %s until %s; confirm it before: bourse confirm %s, or annotation %s: \"true\"",
				r.Provider, r.HeldUntil.Go().Format(time.RFC3339), r.ID, api.ConfirmAnnotation)
		}
	case api.Reserved:
		s = fmt.Sprintf("%s is bound until %s", r.Provider, r.EndsAt().Go().Format(time.RFC3339))
		if r.EndsAt() == r.ReclaimAt {
			s += ", when it takes the contract back"
		}
	case api.Releasing:
		s = fmt.Sprintf("ending; %s frees it", r.Provider)
	case api.Rejected:
		s = "no cluster can serve it"
	default:
		s = string(r.State)
	}
	if endedByOthers(r) {
		s += "; " + describeEarlyEnd(r)
	}
	if r.Message != "" {
		s += ": " + api.WithoutCode(r.Message)
	}
	if r.State == api.Rejected || r.State == api.Pending {
		s += "; see: bourse why " + r.ID
	}
	return s
}

// endedByOthers reports whether somebody else ended a bound reservation.
func endedByOthers(r *market.Reservation) bool {
	return r.Reason.EndedByOthers() && (r.State == api.Releasing || r.State == api.Released)
}

// describeEarlyEnd says who ended a reservation, when, and what becomes of its pods.
func describeEarlyEnd(r *market.Reservation) string {
	who := r.Provider + " ended it"
	switch r.Reason {
	case api.ReasonReclaimed:
		who = r.Provider + " took the contract back, with notice,"
	case api.ReasonMemberRemoved:
		who = "the broker's operator removed one of the two clusters: it ended"
	}
	s := who + " at " + r.LastsUntil().Go().Format(time.RFC3339)
	if early := r.Until.Go().Sub(r.LastsUntil().Go()).Round(time.Second); early > 0 {
		s += ", " + duration.HumanDuration(early) + " before its time"
	}
	if r.Breached() {
		s += ", which contract " + r.ID + " does not allow"
	}
	return s + "; its pods are Pending again; to go on, make another request"
}

// writeStatus writes a status, and an Event if its state or message is new, or if a change is in force.
func (r *Controller) writeStatus(
	ctx context.Context, object *api.ResourceRequest, status api.ResourceRequestStatus, kind, reason string,
) error {
	before := object.Status
	if err := kubeobject.ShowStatus(ctx, r.Client, object, &object.Status, status); err != nil {
		return err
	}
	status = object.Status
	message := status.Message
	changed := hasChanged(before, status)
	if changed {
		reason, message = "Changed", "it is "+describeSize(status)+"; "+message
	}
	if changed || before.State != status.State || before.Message != status.Message {
		r.Events.Eventf(object, nil, kind, reason, "Reserve", "%s", message)
	}
	r.warnOf(object, before, api.ConditionVolumesAtStake, "Release")
	r.warnOf(object, before, api.ConditionLabelsDropped, "Reserve")
	return nil
}

// hasChanged reports whether a bound reservation got another size or end.
func hasChanged(before, now api.ResourceRequestStatus) bool {
	if len(before.Resources) == 0 || len(now.Resources) == 0 || before.Until == nil || now.Until == nil {
		return false
	}
	return !equality.Semantic.DeepEqual(before.Resources, now.Resources) ||
		before.Until.Before(now.Until) // an earlier end has an Event of its own, or is a change of size
}

// describeSize returns the size and the end of a bound reservation: "cpu=8 memory=16Gi until 2026-12-24T18:00:00Z".
func describeSize(s api.ResourceRequestStatus) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(s.Resources)) {
		amount := s.Resources[name]
		texts = append(texts, string(name)+"="+amount.String())
	}
	return strings.Join(texts, " ") + " until " + s.Until.UTC().Format(time.RFC3339)
}
