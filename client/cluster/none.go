package cluster

import (
	"context"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// none is the objects of a user without a kubeconfig. Nothing takes their place: a socket does not say who asks.
type none struct{ kube.Client }

// ErrNoKubeconfig is the error of everything that needs objects, of a user who asks an agent at its own listener.
var ErrNoKubeconfig error = api.Invalid("--kubeconfig", "is missing: this reads or writes objects of the cluster, as you; "+
	"an agent's own listener has none").Fix("give --kubeconfig FILE; or export KUBECONFIG=FILE, and unset BOURSE_SERVER")

// Get implements kube.Reader.
func (none) Get(context.Context, kube.ObjectKey, kube.Object, ...kube.GetOption) error {
	return ErrNoKubeconfig
}

// List implements kube.Reader.
func (none) List(context.Context, kube.ObjectList, ...kube.ListOption) error { return ErrNoKubeconfig }

// Create implements kube.Writer.
func (none) Create(context.Context, kube.Object, ...kube.CreateOption) error { return ErrNoKubeconfig }

// Delete implements kube.Writer.
func (none) Delete(context.Context, kube.Object, ...kube.DeleteOption) error { return ErrNoKubeconfig }

// Patch implements kube.Writer.
func (none) Patch(context.Context, kube.Object, kube.Patch, ...kube.PatchOption) error {
	return ErrNoKubeconfig
}
