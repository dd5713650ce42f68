package virtualnodepools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// namespaces returns the namespaces that a pool serves. An older pool may have some that it names, and a name may
// be too long for a provider.
func (c *Controller) namespaces(ctx context.Context, pool *api.VirtualNodePool,
	out *children) (names []string, err error) {
	owner, err := c.owners(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range pool.Spec.Namespaces {
		if other, known := owner[name]; known && other != pool.Name {
			out.taken = append(out.taken, name+" ("+other+")")
		} else if api.CheckNamespace(name, c.options.Market.Self()) != nil {
			out.long = append(out.long, name)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(out.long)
	return names, nil
}

// owners returns the pool of each namespace that is in one. The pods of no other are needed.
func (c *Controller) owners(ctx context.Context) (map[string]string, error) {
	var all api.VirtualNodePoolList
	if err := c.options.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	owner := vnp.Owners(all.Items)
	c.options.Pods.Only(owner)
	return owner, nil
}

// findMissing finds the namespaces of a pool that do not exist.
func (c *Controller) findMissing(ctx context.Context, out *children) error {
	for _, name := range out.namespaces {
		err := c.options.Client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			out.missing = append(out.missing, name)
		} else if err != nil {
			return err
		}
	}
	slices.Sort(out.missing)
	return nil
}

// labelsOf returns the labels of a virtual node as they are while it is open to all namespaces of the pool that are
// offloaded there. It is closed to one that uses more than the pool has there: the pool may have more tomorrow.
func (c *children) labelsOf(node *corev1.Node, i *api.ReservationInstruction) map[string]string {
	if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionOffloaded) {
		return node.Labels
	}
	open := map[string]string{}
	for _, name := range c.namespaces {
		open[offload.Label(name)] = "true"
	}
	return labels.Merge(node.Labels, open)
}

// notOffloaded says which namespaces of a pool are offloaded to no provider, or not to all, and why. It is empty
// if all are.
func (c *children) notOffloaded() (texts []string) {
	if len(c.missing) > 0 {
		texts = append(texts, fmt.Sprintf("these namespaces do not exist: %s: create them, or take them out of the "+
			"VirtualNodePool", strings.Join(c.missing, ", ")))
	}
	if len(c.long) > 0 {
		texts = append(texts, fmt.Sprintf("with the ID of this cluster, the names of these namespaces would be longer "+
			"than 63 characters at a provider: %s: use namespaces with shorter names", strings.Join(c.long, ", ")))
	}
	for _, fault := range c.faults[api.ConditionOffloaded] {
		switch {
		case fault.reason == string(api.CodeNamespacesFull): // that is a condition of its own
		case fault.reason == "Failed" && len(c.missing) > 0: // because of one of these, another each time
		default:
			texts = append(texts, fault.provider+": "+fault.message)
		}
	}
	return texts
}
