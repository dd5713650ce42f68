package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/objects"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// most is how many reservations are shown to a member: the newest.
const most = 500

// attend has the desk woken by whatever changes for an active member.
func (d *desk) attend(ctx context.Context, state api.MemberState) {
	switch {
	case state != api.MemberActive && d.watching != nil:
		d.watching()
		d.watching = nil
	case state == api.MemberActive && d.watching == nil:
		ctx, d.watching = context.WithCancel(ctx)
		d.all.Go(func() { d.follow(ctx) })
	}
}

// follow has the desk woken until ctx ends.
func (d *desk) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watch, err := d.Server.Exchange.Watch(ctx, d.cluster, "", 0)
		if err == nil {
			for err == nil {
				d.change()
				pause(ctx, max(drawEvery, 20*time.Duration(d.took.Load())))
				_, _, err = watch.Next(ctx)
			}
			watch.Close()
			d.change() // it may have been closed because the member is none any more
		}
		pause(ctx, time.Second) // not at once again
	}
}

// drawEvery is how often a member's reservations are drawn at most. Each time all are read: so it is less often where that takes long.
const drawEvery = 300 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// paint makes the Reservations of a member what the API shows it.
func (d *desk) paint(ctx context.Context, state api.MemberState) error {
	there := kubernetes.List(kubernetes.Reservations)
	if err := d.client.List(ctx, there, client.InNamespace(d.namespace)); err != nil {
		return err
	}
	var all []api.Envelope[api.Reservation]
	switch state {
	case api.MemberActive:
		d.admit(ctx)
		d.agent.FetchInstructions(ctx)
		var err error
		if all, err = d.api().Reservations(ctx); err != nil {
			return fmt.Errorf("read what is to be shown: %w", err)
		}
	case api.MemberRevoked, api.MemberRemoved:
		if err := d.expel(ctx); err != nil { // and nothing is shown any more
			return err
		}
	default:
		return nil // for a while: what was shown stays
	}
	wanted := newest(all, most)
	for i := range there.Items {
		object := &there.Items[i]
		r, ok := wanted[object.GetName()]
		if !ok && state == api.MemberActive && d.agent.Answer(ctx, object) {
			continue
		}
		if !ok {
			if err := client.IgnoreNotFound(d.client.Delete(ctx, object)); err != nil {
				return err
			}
			continue
		}
		delete(wanted, object.GetName())
		if err := d.repaint(ctx, object, objects.Draw(r)); err != nil {
			return err
		}
	}
	for id, r := range wanted {
		object := kubernetes.Object(kubernetes.Reservations, d.namespace, id)
		p := objects.Draw(r)
		spec, err := content(p.Spec)
		if err != nil {
			return err
		}
		object.Object["spec"] = spec
		if err := d.client.Create(ctx, object); apierrors.IsAlreadyExists(err) {
			continue // the cache will show it
		} else if err != nil {
			return err
		}
		if err := d.write(ctx, object, p.Status); err != nil {
			return err
		}
	}
	return nil
}

// repaint puts right what differs.
func (d *desk) repaint(ctx context.Context, object *unstructured.Unstructured, p objects.Picture) error {
	spec, err := content(p.Spec)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(object.Object["spec"], any(spec)) {
		after := object.DeepCopy()
		after.Object["spec"] = spec
		if err := client.IgnoreNotFound(d.client.Patch(ctx, after, client.MergeFrom(object))); err != nil {
			return err
		}
	}
	return d.write(ctx, object, p.Status)
}

// newest are the newest of all, by ID.
func newest(all []api.Envelope[api.Reservation], most int) map[string]api.Envelope[api.Reservation] {
	if len(all) > most {
		slices.SortFunc(all, func(a, b api.Envelope[api.Reservation]) int { return cmp.Compare(b.Revision, a.Revision) })
		all = all[:most]
	}
	out := make(map[string]api.Envelope[api.Reservation], len(all))
	for _, r := range all {
		out[r.ID] = r
	}
	return out
}
