package peering

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

const (
	quick  = 3 * time.Millisecond   // within which Liqo mostly has taken back what it copied
	soon   = 300 * time.Millisecond // between two looks at what is on its way, for what causes no event
	awhile = 2 * time.Second        // between two looks at a network that is not up: it takes seconds to minutes
	later  = 15 * time.Second       // between two looks at an open peering without an event
	// actWithin bounds what is done for one peering at a time.
	actWithin = 2 * time.Minute
)

// keep opens a peering, keeps it open, and lets it do what it is for.
func (p *Peerings) keep(ctx context.Context, object *api.Peering) (ctrl.Result, error) {
	peer, role := object.Spec.Cluster, object.Spec.Role
	ended := object.Status.State == api.PeeringLingering || object.Status.State == api.PeeringClosing
	if ended { // it is used again: a later end does not count from the beginning of this one
		object.Status.State = ""
	}
	side, received := p.side(role), p.options.Messages.Newest(peer, role)
	progress, err := side.Open(ctx, peer, received)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	var connection *network.State
	if progress.Open || progress.Through {
		if connection, err = side.Connect(ctx, peer, received, &progress); err != nil {
			return p.failed(ctx, object, err)
		}
	}
	if err := p.options.Messages.Send(ctx, peer, role, received, progress); err != nil {
		return p.failed(ctx, object, err)
	}
	next := api.PeeringStatus{State: api.PeeringOpening, Step: progress.Step, Conditions: withNetwork(object, connection)}
	if progress.Through && connection != nil && !connection.Ready {
		next.Message = connection.Reason + ": " + connection.Message
	}
	again := soon
	if progress.Open {
		next.State = api.PeeringOpen
		if next.Message, err = side.Serve(ctx, peer); err != nil {
			return p.failed(ctx, object, err)
		}
		if next.Message == "" {
			again = later
		}
	}
	passes := again == soon && !ended && p.waits.Passes(object.Name, wait{progress.Step, next.Message, received})
	if progress.Repeat || connection != nil && !connection.Ready {
		again = min(again, awhile)
	}
	if passes {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{RequeueAfter: again}, p.show(ctx, object, next, progress.ByHand)
}

// failed shows why a peering does not come forward, and returns the cause, so that it is tried again.
func (p *Peerings) failed(ctx context.Context, object *api.Peering, cause error) (ctrl.Result, error) {
	if ctx.Err() != nil { // the status is written in any case
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), later)
		defer cancel()
	}
	next := *object.Status.DeepCopy()
	next.Message = cause.Error()
	if next.State == "" {
		next.State = api.PeeringOpening
	}
	if err := p.show(ctx, object, next, false); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, cause
}
