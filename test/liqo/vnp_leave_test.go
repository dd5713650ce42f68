package liqo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// A provider that an admin no longer admits stays until a person gives up the volume that it has. Then it
// leaves in order: cordoned, pods evicted within their budget, no pod, label off, slice gone. Those of
// Deployments run at the other provider. A pod without a controller goes, too.
func TestAProviderOfAPoolLeavesInOrder(t *testing.T) {
	w := start(t)
	w.lendsDisks(t, w.milan, w.rome)
	a := w.bursts(t, "left", func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan"} })
	node := market.SliceName("rome", "milan", api.GeneralPool)
	claim := a.claim("data")
	work := a.run(2, "500m", "64Mi")
	db := a.deploy("db", 1, "500m", "64Mi", mounts("data"))
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "left", Name: "bare"},
		Spec: *work.Spec.Template.Spec.DeepCopy()}
	all := intstr.FromInt32(2)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "left", Name: "one"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: work.Spec.Selector}}
	for _, o := range []kube.Object{bare, budget} {
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	a.running(w.milan, 4)
	a.isBound(claim, w.milan)
	before := podsIn(t, w.milan, "left-rome")

	a.edit(func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"paris"} })
	word := a.keepsVolumes("milan", "left/data")
	a.hasNode(market.SliceName("rome", "paris", api.GeneralPool)) // there is room elsewhere
	a.givesUpVolumes("guessed")
	a.keepsVolumes("milan", "left/data")
	if after := podsIn(t, w.milan, "left-rome"); !slices.Equal(before, after) {
		t.Errorf("without a person's word, the pods at the provider were %v, are %v", before, after)
	}
	a.givesUpVolumes(word)
	a.counts(vnp.NotAllowed, 1) // the pod that waits for the volume does not keep the provider
	if err := w.rome.Objects.Patch(t.Context(), budget, kube.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"minAvailable":1}}`))); err != nil {
		t.Fatal(err)
	}
	if want, steps := []string{"cordoned", "evicted", "no pod", "label off", "slice gone"},
		a.leaves(node, 4); !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	eventually(t, "the volume is gone", func(ctx context.Context) error { return noVolume(ctx, w.milan, "left-rome") })
	w.nothingLeft(t, w.rome, w.milan)
	a.runsAtParis(patience, "work-", 2)
	a.runsAtParis(patience, "", 2)
	for _, o := range []kube.Object{work, db} {
		if err := w.rome.Objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	a.poolBecomes("0/0/4")
	w.nothingLeft(t, w.rome, w.paris)
	a.deletePool()
}

// leaves returns the steps in which a virtual node of milan with so many pods leaves. Meanwhile, at least
// one pod of the Deployment work is Running at any time, as its budget says.
func (a *burst) leaves(node string, pods int) (steps []string) {
	a.t.Helper()
	step := func(name string, is bool) {
		if is && !slices.Contains(steps, name) {
			steps = append(steps, name)
		}
	}
	key := kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: node}
	at(a.t, "the slice is gone", func(ctx context.Context) error {
		var slice authv1beta1.ResourceSlice // read in the reverse order: what a later step has, an earlier one had
		err := a.rome.Objects.Get(ctx, key, &slice)
		gone := err != nil && kube.IgnoreNotFound(err) == nil || slice.DeletionTimestamp != nil
		var virtual offv1beta1.VirtualNode
		labelled := a.rome.Objects.Get(ctx, key, &virtual) == nil && virtual.Spec.Labels["offload.bourse.dev/left"] != ""
		on, err := a.pods(ctx, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
		if err != nil {
			return err
		}
		available, err := countRunning(ctx, a.rome, "left", func(p *corev1.Pod) bool {
			return p.Labels["deployment"] == "work"
		})
		if err == nil && available < 1 {
			a.t.Errorf("after %q no pod of the Deployment is Running", steps)
		}
		var n corev1.Node
		known := a.rome.Objects.Get(ctx, kube.ObjectKey{Name: node}, &n) == nil
		step("cordoned", known && n.Spec.Unschedulable)
		step("evicted", len(on) < pods)
		step("no pod", len(on) == 0)
		step("label off", !labelled)
		step("slice gone", gone)
		if !gone {
			err = errors.Join(err, fmt.Errorf("after %q it is there: %s", steps, a.status(ctx).Why))
		}
		return err
	})
	return steps
}

// keepsVolumes waits until the pool keeps a provider because of a claim, and returns the word for it.
func (a *burst) keepsVolumes(provider, claim string) (word string) {
	a.t.Helper()
	says := regexp.MustCompile(`^` + provider + ` stays, .* delete ` + claim + `: .* ` + api.VolumesMayDie + `=(\w+)$`)
	eventually(a.t, "the pool keeps "+claim, func(ctx context.Context) error {
		c := meta.FindStatusCondition(a.status(ctx).Conditions, api.ConditionVolumesKeep)
		if c == nil || c.Status != metav1.ConditionTrue || !says.MatchString(c.Message) {
			return fmt.Errorf("it shows %+v", c)
		}
		word = says.FindStringSubmatch(c.Message)[1]
		return nil
	})
	return word
}

// givesUpVolumes gives the word for volumes.
func (a *burst) givesUpVolumes(word string) {
	a.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.VolumesMayDie, word)
	if err := a.rome.Objects.Patch(a.t.Context(), a.pool, kube.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		a.t.Fatal(err)
	}
}

// hasNode waits until a virtual node is Ready.
func (a *burst) hasNode(name string) {
	a.t.Helper()
	eventually(a.t, "node "+name+" is Ready", func(ctx context.Context) error {
		var n corev1.Node
		if err := a.rome.Objects.Get(ctx, kube.ObjectKey{Name: name}, &n); err != nil {
			return err
		}
		if !isReady(&n) {
			return fmt.Errorf("it is %+v", n.Status.Conditions)
		}
		return nil
	})
}

// isReady reports whether a node is Ready.
func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
