package localapi

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// VirtualNodePools returns the VirtualNodePools of the cluster.
func (c *Cluster) VirtualNodePools(ctx context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error) {
	var all api.VirtualNodePoolList
	err := c.o.Client.List(ctx, &all)
	return api.Envelopes(all.Items, (*api.VirtualNodePool).Envelope), kubeobject.Error(err)
}

// PlanVirtualNodePool returns the status that a VirtualNodePool with this spec would have. It writes
// nothing. Errors: Invalid.
func (c *Cluster) PlanVirtualNodePool(ctx context.Context, name string,
	spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error) {
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	return c.o.Requests.PlanPool(ctx, pool)
}

// AdmitProvider lets a provider serve a VirtualNodePool, or does not. Errors: NotFound, Invalid; Conflict
// if Git would undo that.
func (c *Cluster) AdmitProvider(ctx context.Context, name, provider string,
	admission api.Admission) (api.Envelope[api.KnownVirtualNodePool], error) {
	pool := &api.VirtualNodePool{}
	err := market.ValidCluster("cluster", provider)
	if err == nil {
		err = kubeobject.Edit(ctx, func() error {
			if err := c.o.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
				return err
			}
			before := pool.DeepCopy()
			p := &pool.Spec.Providers
			if *p = p.Admit(provider, admission.Admitted); equality.Semantic.DeepEqual(before.Spec, pool.Spec) {
				return nil
			}
			if by := kubeobject.GitOf(pool); by != "" {
				text, _ := json.Marshal(p) // strings and numbers have no text that fails
				return api.Errorf(api.CodeConflict,
					"%s keeps VirtualNodePool %s as it is in Git, and would undo the edit", by, name).
					Fix("write into Git: spec.providers: %s", text)
			}
			return c.o.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		})
	}
	return pool.Envelope(), kubeobject.Error(err)
}

// StopVirtualNodePool deletes a VirtualNodePool: its virtual nodes are then emptied, and its
// reservations end. It may be repeated. Errors: NotFound; Conflict if Git would undo that; VolumesAtStake
// if there are volumes that volumesDie does not give up.
func (c *Cluster) StopVirtualNodePool(ctx context.Context, name, volumesDie string) error {
	pool := &api.VirtualNodePool{}
	if err := c.o.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return kubeobject.Error(err)
	}
	if by := kubeobject.GitOf(pool); by != "" && pool.DeletionTimestamp == nil {
		return api.Errorf(api.CodeConflict,
			"%s keeps VirtualNodePool %s as it is in Git, and would make it again", by, name).
			Fix("delete it in Git")
	}
	err := c.giveUp(ctx, pool, pool.Status.Volumes(), volumesDie, "VirtualNodePool "+name,
		"copy the data and delete the claims, or give the data up: bourse vnp stop "+name)
	if err != nil {
		return err
	}
	return kubeobject.Error(c.o.Client.Delete(ctx, pool, client.Preconditions{UID: &pool.UID}))
}
