package answers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// PlanVirtualNodePool returns the status that a VirtualNodePool with this spec would have. It writes
// nothing. Errors: Invalid.
func (c *Cluster) PlanVirtualNodePool(ctx context.Context, name string,
	spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error) {
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	return c.o.Requests.PlanPool(ctx, pool)
}
