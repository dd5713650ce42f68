package peering

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// leave takes down at once what an unused peering was for. It keeps the peering for a while, and
// then takes it down, too.
func (p *Peerings) leave(ctx context.Context, object *api.Peering) (ctrl.Result, error) {
	peer, side := object.Spec.Cluster, p.side(object.Spec.Role)
	message, err := side.Serve(ctx, peer)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	closing := object.Status.State == api.PeeringClosing
	carried, err := side.Carried(ctx, peer)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	gone := false
	if !carried && (message == "" || closing) { // what runs through the network goes first
		if gone, err = side.Disconnect(ctx, peer); err != nil {
			return p.failed(ctx, object, err)
		}
		if !gone {
			message = "its network is being removed"
		}
	}
	lasts := time.Duration(0)
	if closing || object.Status.State == api.PeeringLingering {
		lasts = p.options.Clock.Since(object.Status.Since.Time)
	}
	left := p.options.Graces.Linger - lasts
	if !closing && (left > 0 || message != "" && lasts < p.options.Graces.Linger+p.options.Graces.Abandon) {
		again := max(left, soon)
		if message != "" {
			again = p.next(object.Name, wait{message: message})
		}
		next := api.PeeringStatus{State: api.PeeringLingering, Message: message, Conditions: withNetwork(object, nil)}
		return ctrl.Result{RequeueAfter: again}, p.show(ctx, object, next, false)
	}
	return p.close(ctx, object, gone, carried, closing && lasts > p.options.Graces.Abandon)
}

// close takes a peering down. gone says that its network is, carried that the peering runs through
// it: then the network goes last. force does not wait for the other side.
func (p *Peerings) close(ctx context.Context, object *api.Peering, gone, carried, force bool) (ctrl.Result, error) {
	peer, role := object.Spec.Cluster, object.Spec.Role
	next := api.PeeringStatus{State: api.PeeringClosing, Conditions: withNetwork(object, nil)}
	if force && role == api.RoleConsumer { // it takes long: show why
		var err error
		if next.Message, err = p.options.Lending.Remains(ctx, peer); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := p.show(ctx, object, next, false); err != nil {
		return ctrl.Result{}, err
	}
	done, err := p.side(role).Close(ctx, peer, force)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	if done && carried {
		if _, err = p.side(role).Disconnect(ctx, peer); err != nil {
			return p.failed(ctx, object, err)
		}
	}
	if !done || !gone {
		return ctrl.Result{RequeueAfter: p.next(object.Name, wait{step: string(api.PeeringClosing)})}, nil
	}
	p.options.Messages.Forget(peer, role)
	p.waits.Forget(object.Name)
	if err := client.IgnoreNotFound(p.options.Client.Delete(ctx, object)); err != nil {
		return ctrl.Result{}, err
	}
	p.deleted.Store(object.Name, object.UID)
	return ctrl.Result{}, nil
}

// next returns when to look again at a peering that ends, which causes no event: the longer it
// waits, the later.
func (p *Peerings) next(name string, now wait) time.Duration {
	return min(max(p.waits.Age(name, now), quick), soon)
}
