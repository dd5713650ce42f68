package liqo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// If the agent is killed at any step of a VirtualNodePool that grows, shrinks, replaces a provider and ends, the
// rest is done after it is back.
func TestAPoolsAgentIsKilledAtEachStep(t *testing.T) {
	w := start(t)
	agent := w.agentOf(t, w.rome)
	a := w.bursts(t, "pool-killed", func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan"} })
	kill := func(when string, is func(context.Context) error) {
		t.Helper()
		at(t, when, is)
		agent.kill()
		agent.start()
	}
	cpu := func(is func(milli int64) bool) func(context.Context) error {
		return func(ctx context.Context) error {
			if r := a.requestTo(ctx, "milan"); r == nil || !is(r.Spec.Resources.Cpu().MilliValue()) {
				return fmt.Errorf("the request is %+v", r)
			}
			return nil
		}
	}
	milan := market.SliceName("rome", "milan", api.GeneralPool)

	work := a.run(2, "500m", "64Mi")
	kill("it asks for 1 CPU", cpu(func(m int64) bool { return m >= 500 }))
	kill("the ResourceSlice is there", func(ctx context.Context) error {
		key := kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: milan}
		return w.rome.Objects.Get(ctx, key, &authv1beta1.ResourceSlice{})
	})
	kill("the virtual node is there", func(ctx context.Context) error {
		return w.rome.Objects.Get(ctx, kube.ObjectKey{Name: milan}, &corev1.Node{})
	})
	a.running(w.milan, 2)
	a.scale(work, 6)
	kill("it asks for 3 CPU", cpu(func(m int64) bool { return m >= 2000 }))
	a.running(w.milan, 6)
	a.poolBecomes("3/3/4")

	a.scale(work, 2)
	kill("it wishes for less", func(ctx context.Context) error {
		r := a.requestTo(ctx, "milan") // the wish may be met before it is seen: then the request asks for less
		if r == nil || r.Annotations[vnp.WishAnnotation] == "" && r.Spec.Resources.Cpu().MilliValue() >= 3000 {
			return fmt.Errorf("the request is %+v", r)
		}
		return nil
	})
	kill("it asks for less", cpu(func(m int64) bool { return m < 3000 }))
	a.poolBecomes("1/1/4")
	a.running(w.milan, 2)

	a.edit(func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"paris"} })
	kill("another provider is asked", func(ctx context.Context) error {
		if a.requestTo(ctx, "paris") == nil {
			return errors.New("it is not")
		}
		return nil
	})
	drains := func(provider string) func(context.Context) error {
		return func(ctx context.Context) error {
			if r := a.requestTo(ctx, provider); r != nil && r.Annotations[vnp.DrainAnnotation] == "" {
				return fmt.Errorf("its annotations are %v", r.Annotations)
			}
			return nil
		}
	}
	ends := func(provider string) func(context.Context) error {
		return func(ctx context.Context) error {
			if r := a.requestTo(ctx, provider); r != nil && r.DeletionTimestamp == nil {
				return errors.New("its request stays")
			}
			return nil
		}
	}
	kill("the first provider is emptied", drains("milan"))
	kill("the first provider is released", ends("milan"))
	a.runsAtParis(patience, "", 2)
	w.nothingLeft(t, w.rome, w.milan)

	if err := w.rome.Objects.Delete(t.Context(), a.pool); err != nil {
		t.Fatal(err)
	}
	kill("the deletion is seen", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(a.pool), a.pool)
		if apierrors.IsNotFound(err) {
			t.Log("the pool was gone before its deletion was seen")
			return nil
		}
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(a.pool.Status.Conditions, api.ConditionReady)
		if ready == nil || ready.Reason != "Deleting" {
			return fmt.Errorf("the pool is %+v", ready)
		}
		return nil
	})
	kill("the second provider is released", ends("paris"))
	a.isNotOffloaded()
	a.isGone()
	w.nothingLeft(t, w.rome, w.paris)
}

// requestTo returns the request of the pool to a provider, nil if there is none.
func (a *burst) requestTo(ctx context.Context, provider string) *api.ResourceRequest {
	a.t.Helper()
	all := a.requests(ctx)
	for i := range all {
		if all[i].Spec.Target == provider {
			return &all[i]
		}
	}
	return nil
}
