package requests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// Wish is what a ResourceRequest of this cluster asks for, and whether its user has confirmed it.
type Wish struct {
	Object    market.Object
	Request   api.Request
	Confirmed bool
	// Reservation is the ID that its status names. Empty: it has none yet.
	Reservation string
	// Check returns why a provider with this card cannot serve the request, before anything is signed. Nil: any
	// can. Errors: InUse, NamespacesFull, those of the API server.
	Check func(context.Context, *api.Card) error

	// after is the reservation that the request had before, if that was never bound and it asks again.
	after string
	// part is the size of one part of a split request; nil: it is not split. remember says to
	// record, and sign nothing yet.
	part     api.Resources
	remember bool
	// passed are the reservations and providers that this cluster passed over while it asked.
	passed [][2]string
}

// key returns the idempotency key of a wish: the same after a lost answer, another for each reservation.
func (w Wish) key() string {
	if w.after == "" {
		return w.Object.UID
	}
	return w.Object.UID + "." + w.after
}

// editedKey returns the key of a wish that was edited after the first answer to it was lost. The broker's hold
// for the first wish ends by itself. Errors: never those of valid requests.
func (w Wish) editedKey() (string, error) {
	data, err := json.Marshal(w.Request)
	digest := sha256.Sum256(data)
	return w.key() + "." + hex.EncodeToString(digest[:8]), err
}

// WishOf returns what an object asks for.
func WishOf(o *api.ResourceRequest) Wish {
	w := Wish{
		Object:    market.Object{Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)},
		Request:   o.Spec.Request,
		Confirmed: o.Annotations[api.ConfirmAnnotation] == "true", Reservation: o.Status.Reservation,
	}
	ofPool := o.Labels[api.VirtualNodePoolLabel] != "" // it may have the key of the request that it succeeds
	if !w.Request.Relend {
		w.Request.RelendKey = ""
	} else if !ofPool || w.Request.RelendKey == "" {
		w.Request.RelendKey = string(o.UID) // nobody can guess it, and it never changes
	}
	return w
}

// makeWish returns what an object asks for, with the check of providers.
func (r *Controller) makeWish(o *api.ResourceRequest) Wish {
	w := WishOf(o)
	w.Check = func(ctx context.Context, provider *api.Card) error {
		if err := r.checkRelent(ctx, o, provider.Cluster); err != nil || r.Offloading == nil {
			return err
		}
		return r.Offloading.CheckNamespaces(ctx, o, provider)
	}
	return w
}

// checkRelent returns an error if this cluster lends on by a VirtualNodePool what it has at a provider, unless the
// request is a pool's: the pods of customers and those of the request would run on the virtual nodes of each other.
// Errors: InUse, those of the API server.
func (r *Controller) checkRelent(ctx context.Context, o *api.ResourceRequest, provider string) error {
	if o.Labels[api.VirtualNodePoolLabel] != "" {
		return nil
	}
	relending, err := r.listRelending(ctx)
	if err != nil || !slices.Contains(relending, provider) {
		return err
	}
	return api.Errorf(api.CodeInUse, "this cluster lends on what its VirtualNodePool has at %s", provider).
		Fix("name another target, or exclude %s from the pool: bourse vnp disable POOL %s", provider, provider)
}

// listRelending lists the providers of VirtualNodePools that this cluster lends on.
func (r *Controller) listRelending(ctx context.Context) (providers []string, err error) {
	var ofPools api.ResourceRequestList
	if err := r.List(ctx, &ofPools, client.HasLabels{api.VirtualNodePoolLabel}); err != nil {
		return nil, kubeobject.Error(err)
	}
	for _, request := range ofPools.Items {
		if request.Spec.Relend && (request.Status.State == "" || !request.Status.State.Over()) {
			providers = append(providers, request.Spec.Target)
		}
	}
	return providers, nil
}
