package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Requests returns the ResourceRequests that the user may list.
func (c *Client) Requests(ctx context.Context) ([]client.RequestStatus, error) {
	out := []client.RequestStatus{}
	err := c.EachRequest(ctx, func(r client.RequestStatus) { out = append(out, r) })
	return out, err
}

// EachRequest calls each with every ResourceRequest that the user may list. There may be thousands: their states in a
// list of its own would take more memory than the pages need.
func (c *Client) EachRequest(ctx context.Context, each func(client.RequestStatus)) error {
	return list(ctx, c, false, func(_ string, all *api.ResourceRequestList) error {
		for i := range all.Items {
			each(all.Items[i].Envelope())
		}
		return nil
	})
}

// EachInstruction calls each with every ReservationInstruction that the user may list.
func (c *Client) EachInstruction(ctx context.Context, each func(*api.ReservationInstruction)) error {
	return list(ctx, c, false, func(_ string, all *api.ReservationInstructionList) error {
		for i := range all.Items {
			each(&all.Items[i])
		}
		return nil
	})
}

// Request returns a ResourceRequest with the steps of its instruction. Errors: NotFound.
func (c *Client) Request(ctx context.Context, namespace, name string) (out client.RequestStatus, err error) {
	object, err := c.request(ctx, namespace, name)
	if err != nil {
		return out, err
	}
	out = object.Envelope()
	if object.Status.Reservation != "" {
		var i api.ReservationInstruction
		err = c.objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: object.Status.Reservation}, &i)
		out.Payload.Steps = i.Status.Conditions
	}
	return out, kubeobject.Error(kube.IgnoreNotFound(err))
}

func (c *Client) request(ctx context.Context, namespace, name string) (*api.ResourceRequest, error) {
	object := &api.ResourceRequest{}
	err := c.objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, object)
	return object, kubeobject.Error(err)
}

// MakeRequest creates a ResourceRequest. The agent's checks come first: it evaluates the request. Errors: those of
// CreateRequest.
func (c *Client) MakeRequest(ctx context.Context, r api.RequestCreate) (out client.RequestStatus, err error) {
	if _, err := c.DryRun(ctx, r); err != nil && !MayWait(err) {
		return out, err
	}
	return c.CreateRequest(ctx, r)
}

// CreateRequest creates a ResourceRequest that was evaluated. Errors: Invalid; Conflict if it exists.
func (c *Client) CreateRequest(ctx context.Context, r api.RequestCreate) (out client.RequestStatus, err error) {
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Request: r.Request,
		Offload: r.Offload, Broker: r.Broker, Via: r.Via}}
	object.Namespace = cmp.Or(r.Namespace, metav1.NamespaceDefault)
	// The client chooses the name, so that a repeat after a lost answer makes no second request.
	object.Name = cmp.Or(r.Name, "request-"+strings.ToLower(rand.Text()[:8]))
	err = c.objects.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return out, api.Errorf(api.CodeConflict, "namespace %s has a ResourceRequest %s already", object.Namespace, object.Name).
			At("name").FixBy("choose another name, or release that one", "bourse", "release", object.Name, "-n", object.Namespace)
	}
	return object.Envelope(), kubeobject.Error(err)
}

// MayWait reports whether a request may be made although its evaluation failed: no broker answers now, or the request
// may wait for what is missing.
func MayWait(err error) bool {
	return slices.Contains([]api.Code{api.CodeUnavailable, api.CodeNoCandidate, api.CodeTooManyRequests}, api.CodeOf(err))
}

// ConfirmRequest confirms a held request. Errors: NotFound.
func (c *Client) ConfirmRequest(ctx context.Context, namespace, name string) (client.RequestStatus, error) {
	object, err := c.request(ctx, namespace, name)
	if err == nil {
		err = c.annotate(ctx, object, api.ConfirmAnnotation, "true")
	}
	return object.Envelope(), err
}

// ofReservation returns the ResourceRequest that has a reservation, among those that the user may list. It asks the
// agent only if there is none. It returns nil for a reservation that ends: its request is gone, or has another one.
// Errors: NotFound, also in a namespace that the client is not for; Conflict if a VirtualNodePool made it, or if its
// request does not show it yet.
func (c *Client) ofReservation(ctx context.Context, id string) (*api.ResourceRequest, error) {
	if id == "" { // any request that nobody has answered has no reservation
		return nil, api.Errorf(api.CodeConflict, "the request has no reservation yet").Fix("wait until it is Reserved, then try again")
	}
	var object *api.ResourceRequest
	err := list(ctx, c, false, func(_ string, all *api.ResourceRequestList) error {
		has := func(o api.ResourceRequest) bool {
			return o.Status.Reservation == id ||
				slices.ContainsFunc(o.Status.Parts, func(p api.RequestPart) bool { return p.Reservation == id })
		}
		if i := slices.IndexFunc(all.Items, has); i >= 0 {
			object = all.Items[i].DeepCopy()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if object != nil {
		if pool := object.Labels[api.VirtualNodePoolLabel]; pool != "" {
			return nil, api.Errorf(api.CodeConflict,
				"reservation %s belongs to VirtualNodePool %s, which decides its size and end", id, pool).
				Fix("edit the pool: kubectl edit vnp %[1]s, or end all of it: kubectl delete vnp %[1]s", pool)
		}
		return object, nil
	}
	found, err := c.Reservation(ctx, id)
	switch {
	case err != nil && api.CodeOf(err) != api.CodeNotFound:
		return nil, err
	case found.Payload.Object == "":
		return nil, api.Errorf(api.CodeNotFound, "no request of this cluster made reservation %.80q", id).
			Fix("see: bourse reservations -A; if the cluster signed it and lost its request: bourse release --help")
	}
	namespace, name, _ := strings.Cut(found.Payload.Object, "/")
	if !slices.Contains(c.namespaces, metav1.NamespaceAll) && !slices.Contains(c.namespaces, namespace) {
		return nil, api.Errorf(api.CodeNotFound, "reservation %s belongs to request %s of another namespace", id, name).
			Fix("name the namespace: -n %s", namespace)
	}
	object, err = c.request(ctx, namespace, name)
	switch {
	case api.CodeOf(err) == api.CodeNotFound && err != nil:
		return nil, nil
	case err == nil && object.Status.Reservation == "":
		err = api.Errorf(api.CodeConflict, "request %s/%s does not show reservation %s yet", namespace, name, id).
			Fix("repeat the command")
	}
	return nil, err
}

// ReleaseLocally deletes the ResourceRequest behind a reservation. Errors: NotFound; VolumesAtStake if that would
// delete volumes that the user has not given up.
func (c *Client) ReleaseLocally(ctx context.Context, id string, r api.Release) error {
	object, err := c.ofReservation(ctx, id)
	if err != nil || object == nil { // it is being released already
		return err
	}
	if err := c.checkGit(object); err != nil {
		return err
	}
	impact, err := c.Impact(ctx, object.Namespace, object.Name)
	if err != nil {
		return err
	}
	if err := c.giveUp(ctx, object, impact.Volumes, r.VolumesDie, "reservation "+id,
		"copy the data first (docs/borrow.md#keep-data), or give it up: bourse release "+id); err != nil {
		return err
	}
	uid := object.GetUID()
	return kubeobject.Error(kube.IgnoreNotFound(c.objects.Delete(ctx, object, kube.Preconditions{UID: &uid})))
}

// MoveEnd returns the change that ends the reservation of a request at a time. now is the agent's. Errors: Invalid if the
// time is past or later than a reservation may end, or if it is earlier than the present end and the user did not agree to that.
func MoveEnd(r client.RequestStatus, at, now time.Time, shorten bool) (api.ReservationChange, error) {
	left, until, began := at.Sub(now), metav1.NewTime(at), r.Payload.Status.Began
	if r.Payload.Status.Until != nil {
		until = *r.Payload.Status.Until
	}
	switch earlier := until.Sub(at).Round(time.Second); {
	case left <= 0:
		return api.ReservationChange{}, api.Invalid("--until", "%s is not in the future", at.UTC().Format(time.RFC3339)).
			Fix("say how long from now, or end it: bourse release %s", r.Payload.Status.Reservation)
	case began != nil && at.Sub(began.Time) > api.LongestDuration:
		latest := began.Add(api.LongestDuration)
		return api.ReservationChange{}, api.Invalid("--until", "a reservation lasts at most %s, from when it began: until %s",
			duration.HumanDuration(api.LongestDuration), latest.UTC().Format(time.RFC3339)).
			Fix("give %s from now at most", duration.HumanDuration(latest.Sub(now).Truncate(time.Hour)))
	case earlier > time.Minute && !shorten:
		return api.ReservationChange{}, api.Invalid("--shorten", "that would end it %s earlier: it lasts until %s",
			duration.HumanDuration(earlier), until.UTC().Format(time.RFC3339)).
			Fix("for more time: --by 1h; to end it earlier: --shorten")
	}
	return api.ReservationChange{For: &metav1.Duration{Duration: left}}, nil
}

// ChangeLocally edits the request behind a reservation. Its condition UpToDate reports the outcome. Errors: Invalid,
// NotFound, Conflict.
func (c *Client) ChangeLocally(ctx context.Context, id string, change api.ReservationChange) (out client.RequestStatus, err error) {
	object, err := c.ofReservation(ctx, id)
	if err == nil && object == nil {
		err = api.Errorf(api.CodeConflict, "reservation %s ends: its request is gone or has another reservation", id).
			FixBy("see", "bourse", "reservations")
	}
	if err != nil {
		return out, err
	}
	err = cmp.Or(checkChange(object, id, change), c.checkGit(object))
	if err != nil {
		return out, err
	}
	if wanted := object.DeepCopy(); wanted.Spec.Purchase == nil {
		c.resize(wanted, change)
		_, err := amounts.ParseRequest("resources", wanted.Spec.Resources)
		if err = cmp.Or(err, amounts.CheckWhole("resources", wanted.Spec.Resources)); err != nil {
			return out, err
		}
	}
	if err := c.patch(ctx, object, func() { c.resize(object, change) }); err != nil {
		return out, err
	}
	return object.Envelope(), nil
}

// checkChange returns why a reservation cannot change so.
func checkChange(o *api.ResourceRequest, id string, change api.ReservationChange) error {
	again := fmt.Sprintf("release it, and make a new reservation: bourse release %s", id)
	switch bought := o.Spec.Purchase != nil; {
	case o.Status.Began == nil:
		if o.Status.State == api.Held {
			again = "confirm it first, or wait until it is Reserved: bourse confirm " + id
		}
		return api.Errorf(api.CodeConflict, "reservation %s is %s: only a bound reservation can change", id, o.Status.State).
			Fix("%s", again)
	case len(o.Status.Parts) > 0:
		return api.Errorf(api.CodeConflict, "reservation %s is a part of a split request, which cannot change", id).
			Fix("make another reservation for more, or release it and make a new one")
	case change.For != nil && change.For.Duration <= 0:
		return api.Invalid("for", "%s is not in the future", change.For.Duration).
			Fix("release it instead: bourse release %s", id)
	case bought && len(change.Resources) > 0:
		return api.Invalid("resources", "reservation %s was made from a plan", id).
			Fix("give the number of units: bourse resize %s --units N", id)
	case !bought && change.Units > 0:
		return api.Invalid("units", "reservation %s was not made from a plan", id).Fix("name amounts, such as --cpu 8")
	}
	return nil
}

// resize writes a change into a ResourceRequest, which is bound. The time is the agent's.
func (c *Client) resize(o *api.ResourceRequest, change api.ReservationChange) {
	began := o.Status.Began.Time
	if change.Withdraw && o.Status.Until == nil {
		return
	}
	if change.Withdraw {
		o.Spec.Duration = &metav1.Duration{Duration: o.Status.Until.Sub(began).Round(time.Second)}
		if o.Spec.Purchase != nil {
			o.Spec.Purchase.Units = cmp.Or(o.Status.Units, o.Spec.Purchase.Units)
		} else {
			o.Spec.Resources = o.Status.Resources
		}
		return
	}
	if change.Units > 0 {
		o.Spec.Purchase.Units = change.Units
	}
	if o.Spec.Resources == nil {
		o.Spec.Resources = api.Resources{}
	}
	for name, amount := range change.Resources {
		if o.Spec.Resources[name] = amount; amount.IsZero() {
			delete(o.Spec.Resources, name)
		}
	}
	if change.For != nil {
		o.Spec.Duration = &metav1.Duration{Duration: (c.Now().Sub(began) + change.For.Duration).Round(time.Second)}
	}
}

// DeleteRequest deletes a ResourceRequest that has no reservation: it was refused, or nobody answered it yet. Errors:
// NotFound; Conflict if it has one, or if Git would make it again.
func (c *Client) DeleteRequest(ctx context.Context, namespace, name string) error {
	object, err := c.request(ctx, namespace, name)
	if err != nil {
		return err
	}
	if id := object.Status.Reservation; id != "" {
		return api.Errorf(api.CodeConflict, "request %s/%s has reservation %s by now", namespace, name, id).
			Fix("release it: bourse release %s", id)
	}
	if err := c.checkGit(object); err != nil {
		return err
	}
	uid, version := object.GetUID(), object.GetResourceVersion()
	return kubeobject.Error(c.objects.Delete(ctx, object, kube.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// Instruction returns what the cluster carries out for a reservation of a namespace: its progress and its use. Errors:
// NotFound.
func (c *Client) Instruction(ctx context.Context, namespace, id string) (out api.ReservationInstruction, err error) {
	err = c.objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: id}, &out)
	return out, kubeobject.Error(err)
}
