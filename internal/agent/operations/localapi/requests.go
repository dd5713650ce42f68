package localapi

import (
	"cmp"
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// MakeRequest creates a ResourceRequest. Errors: Invalid; Conflict where it exists.
func (c *Cluster) MakeRequest(ctx context.Context, r api.RequestCreate) (api.Envelope[api.RequestStatus], error) {
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Request: r.Request,
		Offload: r.Offload, Broker: r.Broker, Via: r.Via}}
	object.Namespace, object.Name = cmp.Or(r.Namespace, metav1.NamespaceDefault), r.Name
	err := c.o.Requests.CheckRequest(r.Request)
	if err == nil {
		err = c.o.Requests.CheckOffload(ctx, object.Namespace, r.Offload)
	}
	if err != nil {
		return api.Envelope[api.RequestStatus]{}, err
	}
	if object.Name == "" {
		object.GenerateName = "request-"
	}
	err = c.o.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		err = api.Errorf(api.CodeConflict, "namespace %s has a ResourceRequest %s already", object.Namespace, object.Name).
			At("name").Fix("choose another name, or release that one: bourse release %s/%s", object.Namespace, object.Name)
	}
	if err != nil {
		return api.Envelope[api.RequestStatus]{}, kubeobject.Error(err)
	}
	return object.Envelope(), c.awaitCached(ctx, object)
}

// awaitCached waits until the agent's cache has an object: its caller reads it next.
func (c *Cluster) awaitCached(ctx context.Context, object *api.ResourceRequest) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond,
		10*time.Second, true, func(ctx context.Context) (bool, error) {
			err := c.o.Client.Get(ctx, client.ObjectKeyFromObject(object), &api.ResourceRequest{})
			return err == nil, client.IgnoreNotFound(err)
		})
}

func (c *Cluster) getRequest(ctx context.Context, namespace, name string) (*api.ResourceRequest, error) {
	object := &api.ResourceRequest{}
	if err := c.o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, kubeobject.Error(err)
	}
	return object, nil
}

// Request returns a ResourceRequest with the steps of its instruction. Errors: NotFound.
func (c *Cluster) Request(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error) {
	object, err := c.getRequest(ctx, namespace, name)
	if err != nil {
		return api.Envelope[api.RequestStatus]{}, err
	}
	out, i := object.Envelope(), &api.ReservationInstruction{}
	if object.Status.Reservation != "" {
		err = c.o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object.Status.Reservation}, i)
	}
	if client.IgnoreNotFound(err) != nil {
		return out, kubeobject.Error(err)
	}
	out.Payload.Steps = i.Status.Conditions
	return out, nil
}

// Impact returns what would end with a ResourceRequest. Errors: NotFound; Unavailable.
func (c *Cluster) Impact(ctx context.Context, namespace, name string) (out api.Impact, err error) {
	object, err := c.getRequest(ctx, namespace, name)
	if err == nil {
		out.Volumes, err = c.o.Requests.FindVolumes(ctx, object)
	}
	return out, err
}

// Requests returns all ResourceRequests.
func (c *Cluster) Requests(ctx context.Context) ([]api.Envelope[api.RequestStatus], error) {
	var list api.ResourceRequestList
	err := c.o.Client.List(ctx, &list)
	return api.Envelopes(list.Items, (*api.ResourceRequest).Envelope), kubeobject.Error(err)
}

// ConfirmRequest confirms a ResourceRequest that is held. Errors: NotFound.
func (c *Cluster) ConfirmRequest(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error) {
	object, err := c.getRequest(ctx, namespace, name)
	if err != nil {
		return api.Envelope[api.RequestStatus]{}, err
	}
	before := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, api.ConfirmAnnotation, "true")
	if err := c.o.Client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return api.Envelope[api.RequestStatus]{}, kubeobject.Error(err)
	}
	return object.Envelope(), nil
}

// ChangeReservation edits the ResourceRequest that made a reservation. Its condition UpToDate reports the
// outcome. Errors: Invalid, NotFound, Conflict.
func (c *Cluster) ChangeReservation(ctx context.Context, id string,
	change api.ReservationChange) (none api.Envelope[api.RequestStatus], err error) {
	record, err := readReservation(ctx, c.o.Ledger, id)
	if err != nil {
		return none, err
	}
	switch {
	case record == nil || record.Object == nil:
		return none, api.Errorf(api.CodeNotFound, "no request of this cluster made reservation %.80q", id).
			Fix("see: bourse reservations")
	case !record.Bound():
		refusal := api.Errorf(api.CodeConflict, "reservation %s is %s: only a bound reservation can change", id, record.State)
		switch {
		case record.State == api.Held && record.Assignment == "":
			return none, refusal.Fix("confirm it first: bourse confirm %s", id)
		case record.State == api.Held:
			return none, refusal.Fix("wait until it is Reserved")
		}
		return none, refusal.Fix("release it, and make a new reservation: bourse release %s", id)
	case change.For != nil && change.For.Duration <= 0:
		return none, api.Invalid("for", "%s is not in the future", change.For.Duration).
			Fix("release it instead: bourse release %s", id)
	}
	if len(record.Group) > 0 {
		return none, api.Errorf(api.CodeConflict, "reservation %s is a part of a split request, which cannot change", id).
			Fix("make another reservation for more, or release it and make a new one")
	}
	var object *api.ResourceRequest
	err = kubeobject.Edit(ctx, func() (err error) {
		if object, err = c.getRequest(ctx, record.Object.Namespace, record.Object.Name); err != nil {
			return err
		}
		if string(object.UID) != record.Object.UID {
			return api.Errorf(api.CodeConflict, "reservation %s ends: its request was replaced by another of the same name", id).
				Fix("see: bourse reservations")
		}
		if err := checkOwn(object, id); err != nil {
			return err
		}
		before := object.DeepCopy()
		if err := c.resize(object, change, record); err != nil {
			return err
		}
		return c.o.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return none, kubeobject.Error(err)
	}
	return object.Envelope(), nil
}

// checkOwn refuses to change or release a reservation of a VirtualNodePool: the pool would undo it. Errors:
// Conflict.
func checkOwn(object *api.ResourceRequest, id string) error {
	pool := object.Labels[api.VirtualNodePoolLabel]
	if pool == "" {
		return nil
	}
	return api.Errorf(api.CodeConflict,
		"reservation %s belongs to VirtualNodePool %s, which decides its size and end", id, pool).
		Fix("edit the pool: kubectl edit vnp %[1]s, or end all of it: kubectl delete vnp %[1]s", pool)
}

// resize writes a change into a ResourceRequest. Errors: Invalid.
func (c *Cluster) resize(object *api.ResourceRequest, change api.ReservationChange, record *market.Reservation) error {
	bought := object.Spec.Purchase
	if change.Withdraw {
		object.Spec.Duration = &metav1.Duration{Duration: record.Until.Go().Sub(record.Created.Go()).Round(time.Second)}
		if bought != nil && record.Sale != nil {
			bought.Units = record.Sale.Units
		} else {
			object.Spec.Resources = record.Size.Resources()
		}
		return nil
	}
	switch {
	case bought != nil && len(change.Resources) > 0:
		return api.Invalid("resources", "reservation %s was made from a plan", record.ID).
			Fix("give the number of units: bourse resize %s --units N", record.ID)
	case bought == nil && change.Units > 0:
		return api.Invalid("units", "reservation %s was not made from a plan", record.ID).Fix("name amounts, such as --cpu 8")
	case bought != nil && change.Units > 0:
		bought.Units = change.Units
	}
	for name, amount := range change.Resources {
		object.Spec.Resources[name] = amount
		if amount.IsZero() {
			delete(object.Spec.Resources, name)
		}
	}
	if change.For != nil {
		object.Spec.Duration = &metav1.Duration{Duration: (c.o.Ledger.Now().Go().Sub(record.Created.Go()) +
			change.For.Duration).Round(time.Second)}
	}
	if object.Spec.Purchase != nil {
		return nil
	}
	_, err := amounts.ParseRequest("resources", object.Spec.Resources)
	return cmp.Or(err, amounts.CheckWhole("resources", object.Spec.Resources))
}

// ReleaseReservation deletes the ResourceRequest that made a reservation. A reservation that the
// Ledger does not know, or without its request, ends too. Errors: NotFound; VolumesAtStake if that
// would delete volumes that the user has not given up.
func (c *Cluster) ReleaseReservation(ctx context.Context, id string, r api.Release) error {
	record, err := readReservation(ctx, c.o.Ledger, id)
	if err != nil {
		return err
	}
	if record == nil || record.Object == nil {
		return c.o.Requests.EndUnknown(ctx, id)
	}
	uid := types.UID(record.Object.UID)
	object, err := c.getRequest(ctx, record.Object.Namespace, record.Object.Name)
	if api.CodeOf(err) == api.CodeNotFound || err == nil && object.UID != uid {
		return nil // it is being released already
	}
	if err == nil {
		err = checkOwn(object, id)
	}
	if err != nil {
		return err
	}
	volumes, err := c.o.Requests.FindVolumes(ctx, object)
	if err == nil {
		err = c.giveUp(ctx, object, volumes, r.VolumesDie, "reservation "+id,
			"copy the data first (docs/borrow.md#keep-data), or give it up: bourse release "+id)
	}
	if err != nil {
		return err
	}
	err = c.o.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
	return kubeobject.Error(client.IgnoreNotFound(err)) // it is being released already
}

// giveUp records in an object that a user gives up the volumes that end with it, nil for none. The
// controller of the object compares the list again before anything ends. name and remedy are for the
// error: the remedy ends with a command that takes the digest. Errors: VolumesAtStake if word is not
// the digest of the list.
func (c *Cluster) giveUp(
	ctx context.Context, object client.Object, volumes *api.Volumes, word, name, remedy string,
) error {
	if volumes == nil || object.GetAnnotations()[api.VolumesMayDie] == volumes.Digest {
		return nil
	}
	if err := volumes.CheckGivenUp(word, name, remedy); err != nil {
		return err
	}
	given := labels.Merge(object.GetAnnotations(), labels.Set{api.VolumesMayDie: word})
	return kubeobject.Error(kubeobject.Change(ctx, c.o.Client, object, func() { object.SetAnnotations(given) }))
}
