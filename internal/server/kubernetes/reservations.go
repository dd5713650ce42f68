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
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// most is the number of reservations that are shown to a member: the newest.
const most = 500

// followMarket makes changes of the market wake the session of an active member.
func (m *memberSession) followMarket(ctx context.Context, state api.MemberState) {
	switch {
	case state != api.MemberActive && m.watching != nil:
		m.watching()
		m.watching = nil
	case state == api.MemberActive && m.watching == nil:
		ctx, m.watching = context.WithCancel(ctx)
		m.all.Go(func() {
			m.Server.Exchange.Follow(ctx, m.cluster, func([]*market.Reservation) {
				m.invalidate()
				pause(ctx, max(writeEvery, 20*time.Duration(m.took.Load())))
			})
		})
	}
}

// writeEvery is the shortest interval at which a member's Reservations are written. Each time all are
// read, so the interval grows with the duration.
const writeEvery = 300 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// writeReservations makes the Reservations of a member equal to what the API shows it.
func (m *memberSession) writeReservations(ctx context.Context, state api.MemberState) error {
	there := kubernetes.List(kubernetes.Reservations)
	if err := m.client.List(ctx, there, client.InNamespace(m.namespace)); err != nil {
		return err
	}
	var all []api.Envelope[api.Reservation]
	switch state {
	case api.MemberActive:
		m.admit(ctx)
		m.agent.FetchInstructions(ctx)
		var err error
		if all, err = m.api().Reservations(ctx); err != nil {
			return fmt.Errorf("read what is to be shown: %w", err)
		}
	case api.MemberRevoked, api.MemberRemoved:
		if err := m.expel(ctx); err != nil { // show nothing any more
			return err
		}
	default:
		return nil // temporary: keep the Reservations
	}
	wanted := newest(all, most)
	for i := range there.Items {
		object := &there.Items[i]
		r, ok := wanted[object.GetName()]
		delete(wanted, object.GetName())
		var err error
		if ok {
			err = m.writeReservation(ctx, object, objects.Draw(r))
		} else if state != api.MemberActive || !m.agent.Answer(ctx, object) {
			err = client.IgnoreNotFound(m.client.Delete(ctx, object))
		}
		if err != nil {
			return err
		}
	}
	for id, r := range wanted {
		object := kubernetes.Object(kubernetes.Reservations, m.namespace, id)
		if err := m.writeReservation(ctx, object, objects.Draw(r)); err != nil {
			return err
		}
	}
	return nil
}

// writeReservation makes an object that does not exist yet, or corrects its differences.
func (m *memberSession) writeReservation(ctx context.Context,
	object *unstructured.Unstructured, p objects.Projection) error {
	spec, err := content(p.Spec)
	if err != nil {
		return err
	}
	if object.GetResourceVersion() == "" {
		object.Object["spec"] = spec
		if err := m.client.Create(ctx, object); apierrors.IsAlreadyExists(err) {
			return nil // the cache will have it soon
		} else if err != nil {
			return err
		}
	} else if !equality.Semantic.DeepEqual(object.Object["spec"], any(spec)) {
		before := object.DeepCopy()
		object.Object["spec"] = spec
		err := m.client.Patch(ctx, object, client.MergeFrom(before))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return m.write(ctx, object, p.Status)
}

// newest returns the newest reservations, by ID.
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
